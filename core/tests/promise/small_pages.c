/* SPDX-License-Identifier: MIT
 *
 * On systems that make huge pages for all programs (`always` in /sys/kernel/mm/transparent_hugepage/enabled, which
 * is Debian's default) a small program gets none for its heap, and memory that was given back is not filled again.
 * What the kernel was told is seen in the flags of smaps ("nh"), whatever the system's setting is.
 */
#include "promise.h"

#include <inttypes.h>
#include <limits.h>
#include <malloc.h>
#include <sys/mman.h>
#include <unistd.h>

/* SLOW_US: what the allocator takes for slow. */
enum { SKIPPED = 77, BLOCK = 256 * KIB, LARGE = 96 * MIB, SLOW_US = 2000 };

static char *blocks[LARGE / BLOCK];

/* Calls `look` for each mapping: its ends, whether huge pages are refused there, and their bytes. */
static void each_mapping(void (*look)(uintptr_t start, uintptr_t end, bool refused, size_t huge))
{
    static char text[4 * MIB];
    promise_read("/proc/self/smaps", text, sizeof text);
    uintptr_t start = 0, end = 0;
    size_t huge = 0;
    for (char *line = text, *next; line != NULL && *line; line = next) {
        next = strchr(line, '\n');
        if (next != NULL) {
            *next++ = 0;
        }
        uintptr_t from, to;
        if (strchr("0123456789abcdef", *line) &&
            sscanf(line, "%" SCNxPTR "-%" SCNxPTR, &from, &to) == 2) {
            start = from;
            end = to;
        } else if (strncmp(line, "AnonHugePages:", 14) == 0) {
            huge = (size_t)strtoull(line + 14, NULL, 10) * KIB;
        } else if (strncmp(line, "VmFlags:", 8) == 0) {
            look(start, end, strstr(line, " nh") != NULL, huge);
        }
    }
}

static uintptr_t wanted;
static bool is_refused;

static void look_at_wanted(uintptr_t start, uintptr_t end, bool refused, size_t huge)
{
    (void)huge;
    if (start <= wanted && wanted < end) {
        is_refused = refused;
    }
}

static bool refused_at(const void *address)
{
    wanted = (uintptr_t)address;
    each_mapping(look_at_wanted);
    return is_refused;
}

static uintptr_t tables; /* of the library */
static size_t huge_bytes, open_bytes;

/* What the library has of memory without a file begins behind its data, and ends within some MiB. */
static void look_at_tables(uintptr_t start, uintptr_t end, bool refused, size_t huge)
{
    huge_bytes += huge;
    uintptr_t first = (start + 2 * MIB - 1) & ~(uintptr_t)(2 * MIB - 1);
    bool is_behind = start >= tables && start < tables + 4 * MIB;
    if (is_behind && !refused && first + 2 * MIB <= end) {
        open_bytes += 2 * MIB;
    }
}

static void use_a_little(void)
{
    static const size_t sizes[] = {24, 300, 3000, 30000, 100000};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        char *block = malloc(sizes[i]);
        CHECK(block != NULL);
        memset(block, 1, sizes[i]);
        CHECK_MSG(refused_at(block), "a block of %zu bytes may get huge pages", sizes[i]);
    }
    tables = (uintptr_t)dlsym(RTLD_DEFAULT, "mw_stats_page") & ~(uintptr_t)4095;
    each_mapping(look_at_tables);
    promise_at_most("huge pages of a small program", huge_bytes / KIB, 0, "KiB");
    promise_at_most("tables that may get some", open_bytes / KIB, 0, "KiB");
}

/* Whether the address is of a mapping, and its page of no memory. */
static bool is_given_back(const void *address)
{
    unsigned char page = 0;
    void *start = (void *)((uintptr_t)address & -(uintptr_t)sysconf(_SC_PAGESIZE));
    return mincore(start, 1, &page) == 0 && (page & 1) == 0;
}

/* How long the first write to a huge page takes; of some the shortest time. */
static long huge_page_us(void)
{
    long least = LONG_MAX;
    for (int i = 0; i < 20; i++) {
        char *memory =
            mmap(NULL, 4 * MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        CHECK(memory != MAP_FAILED);
        madvise(memory, 4 * MIB, MADV_HUGEPAGE);
        struct timespec before, after;
        clock_gettime(CLOCK_MONOTONIC, &before);
        *(volatile char *)(memory + 2 * MIB - (uintptr_t)memory % (2 * MIB)) = 1;
        clock_gettime(CLOCK_MONOTONIC, &after);
        long us =
            (after.tv_sec - before.tv_sec) * 1000000 + (after.tv_nsec - before.tv_nsec) / 1000;
        least = us < least ? us : least;
        munmap(memory, 4 * MIB);
    }
    return least;
}

/* A process whose first huge page seemed to take long wants none from then on, and on a busy machine it may seem so. On
 * some machines it is so. */
static void try_again(const char *program, long start_ms)
{
    if (promise_now_ms() - start_ms > PROMISE_PATIENCE_MS) {
        long us = huge_page_us();
        CHECK_MSG(us > SLOW_US, "a large program gets what the system gives to all");
        printf("skipped: a huge page takes %ld us here\n", us);
        exit(SKIPPED);
    }
    char start[32];
    snprintf(start, sizeof start, "%ld", start_ms);
    printf("huge pages are slow now: again\n");
    fflush(stdout);
    execl("/proc/self/exe", program, start, (char *)NULL);
    CHECK_MSG(false, "exec");
}

/* Every second block goes: the rest keeps the regions. What waits in a quarantine did not go back. */
static void give_back_much(const char *program, long start_ms)
{
    unsigned count = LARGE / BLOCK, given_back = 0;
    for (unsigned i = 0; i < count; i++) {
        blocks[i] = malloc(BLOCK);
        CHECK(blocks[i] != NULL);
        memset(blocks[i], 1, BLOCK);
    }
    unsigned open = 0;
    for (unsigned i = count / 2; i < count; i += 8) { /* but for the ends of regions */
        open += !refused_at(blocks[i]);
    }
    if (open <= count / 32) {
        try_again(program, start_ms);
    }
    for (unsigned i = 1; i < count; i += 2) {
        free(blocks[i]);
    }
    malloc_trim(0);
    for (unsigned i = 1; i < count; i += 2) {
        if (is_given_back(blocks[i])) {
            given_back++;
            CHECK_MSG(refused_at(blocks[i]), "what was block %u may be filled again", i);
        }
    }
    printf("blocks given back: %u of %u\n", given_back, count / 2);
    CHECK(given_back > count / 8);
}

int main(int argc, char **argv)
{
    if (access("/sys/kernel/mm/transparent_hugepage/enabled", R_OK) != 0) {
        printf("skipped: this kernel makes no huge pages\n");
        return SKIPPED;
    }
    use_a_little();
    give_back_much(argv[0], argc > 1 ? atol(argv[1]) : promise_now_ms());
    return 0;
}
