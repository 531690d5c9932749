/* SPDX-License-Identifier: MIT
 *
 * In the secure and the debug build what the allocator keeps for itself lies between pages without access. It is found
 * by the descriptors of heaps, which fill several chunks of it where there are many threads.
 */
#include "promise.h"

enum { THREADS = 40 };

struct mapping {
    uintptr_t start, end;
    bool has_access;
};

static pthread_barrier_t have_heaps, may_end;
static char maps[1 << 20];

static void *have_heap(void *unused)
{
    free(malloc(100));
    pthread_barrier_wait(&have_heaps);
    pthread_barrier_wait(&may_end);
    return unused;
}

static const struct stats_page *page(void)
{
    const struct stats_page *found = dlsym(RTLD_DEFAULT, "mw_stats_page");
    CHECK(found != NULL);
    return found;
}

static uintptr_t word_at(uintptr_t address)
{
    return *(const volatile uintptr_t *)address;
}

static uintptr_t first_heap(void)
{
    for (uint32_t i = 0; i < page()->root_count; i++) {
        if (strcmp(page()->roots[i].name, "heaps") == 0) {
            return word_at((uintptr_t)page()->roots[i].address);
        }
    }
    return 0;
}

static uintptr_t next_heap(uintptr_t heap)
{
    for (uint32_t i = 0; i < page()->field_count; i++) {
        if (strcmp(page()->fields[i].name, "heap.next") == 0) {
            return word_at(heap + page()->fields[i].offset);
        }
    }
    FAIL("no field heap.next");
}

/* A line of /proc/self/maps; returns the next one. */
static const char *read_mapping(const char *line, struct mapping *mapping)
{
    char access[5];
    CHECK_EQ(sscanf(line, "%" SCNxPTR "-%" SCNxPTR " %4s", &mapping->start, &mapping->end, access),
             3);
    mapping->has_access = strcmp(access, "---p") != 0;
    const char *end = strchr(line, '\n');
    CHECK(end != NULL);
    return end + 1;
}

/* The mapping with an address, which has others without access on both sides. */
static struct mapping chunk_of(uintptr_t address)
{
    struct mapping before, after, chunk = {0, 0, false};
    for (const char *line = maps; *line != 0;) {
        before = chunk;
        line = read_mapping(line, &chunk);
        if (chunk.start <= address && address < chunk.end) {
            CHECK(*line != 0);
            read_mapping(line, &after);
            CHECK_MSG(before.end == chunk.start && !before.has_access, "in front of %#" PRIxPTR,
                      chunk.start);
            CHECK_MSG(after.start == chunk.end && !after.has_access, "behind %#" PRIxPTR,
                      chunk.end);
            return chunk;
        }
    }
    FAIL("no mapping with %#" PRIxPTR, address);
}

int main(void)
{
    static pthread_t threads[THREADS];
    promise_start_crowd(threads, THREADS, have_heap,
                        (pthread_barrier_t *[]){&have_heaps, &may_end});
    pthread_barrier_wait(&have_heaps);
    promise_read("/proc/self/maps", maps, sizeof maps);

    struct mapping last = {0, 0, false};
    size_t chunks = 0;
    for (uintptr_t heap = first_heap(); heap != 0; heap = next_heap(heap)) {
        struct mapping chunk = chunk_of(heap);
        if (chunk.start != last.start) {
            CHECK(!promise_traps((volatile char *)heap));
            CHECK(promise_traps((volatile char *)chunk.start - 1));
            CHECK(promise_traps((volatile char *)chunk.end));
            chunks++;
        }
        last = chunk;
    }
    printf("%zu chunks with heaps\n", chunks);
    CHECK_GE(chunks, 2);
    pthread_barrier_wait(&may_end);
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
    }
    return 0;
}
