/* SPDX-License-Identifier: MIT
 *
 * Programs whose heap is known: each makes the blocks of its case, prints what it holds and what the
 * allocator says about itself, and rests.
 *
 *   known_heap threads | holes | leaks | arenas | explicit | race
 */
#include <malloc.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define HEADER 8 /* of glibc's chunks; nothing in Mallow, where it is within the tolerance */

static _Atomic size_t own_bytes, own_blocks;
static pthread_barrier_t made;

static void *hold(size_t size)
{
    char *block = malloc(size);
    memset(block, 1, size);
    own_bytes += malloc_usable_size(block) + HEADER;
    own_blocks++;
    return block;
}

static void drop(void *block)
{
    own_bytes -= malloc_usable_size(block) + HEADER;
    own_blocks--;
    free(block);
}

static void *one_small_block(void *argument)
{
    hold(8);
    pthread_barrier_wait(&made);
    pause();
    return argument;
}

static void *a_thousand_blocks(void *argument)
{
    for (int i = 0; i < 1000; i++) {
        hold(16 + (size_t)i % 1000);
    }
    pthread_barrier_wait(&made);
    pause();
    return argument;
}

/* Frees and allocates for ever, blocks of the same sizes. */
static void *never_at_rest(void *argument)
{
    enum { COUNT = 20000 };
    void **blocks = calloc(COUNT, sizeof *blocks);
    for (size_t i = 0; i < COUNT; i++) {
        blocks[i] = hold(16 + i % 1500);
    }
    pthread_barrier_wait(&made);
    for (size_t i = 0;; i = (i * 5 + 1) % COUNT) {
        free(blocks[i]);
        blocks[i] = malloc(16 + i % 1500);
        memset(blocks[i], 1, 16);
    }
    return argument;
}

static void start(int count, void *(*body)(void *))
{
    pthread_barrier_init(&made, NULL, (unsigned)count + 1);
    for (int i = 0; i < count; i++) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, body, NULL) != 0) {
            exit(1);
        }
    }
    pthread_barrier_wait(&made);
}

/* One thread frees nine of ten; the sizes reach from thread caches to mappings. */
static void holes(void)
{
    enum { COUNT = 100000 };
    static void *blocks[COUNT];
    for (int i = 0; i < COUNT; i++) {
        blocks[i] = hold(i % 5000 == 0 ? 300000 : 20 + (size_t)i % 1500);
    }
    for (int i = 0; i < COUNT; i++) {
        if (i % 10 != 0) {
            drop(blocks[i]);
        }
    }
}

static void leaks(void)
{
    for (int i = 0; i < 200000; i++) {
        hold(200);
    }
}

/* Of jemalloc's interface, where the allocator has it. */
__attribute__((weak)) void *mallocx(size_t size, int flags);
__attribute__((weak)) int mallctl(const char *name, void *old, size_t *old_size, void *new,
                                  size_t new_size);

/* Blocks of arenas that the program made, small and large; every second small one is freed. The first
 * arena is destroyed: none of its blocks is there any more. */
static void explicit_arenas(void)
{
    enum { ARENAS = 3, COUNT = 20000 };
    static void *blocks[COUNT];
    for (int n = 0; n < ARENAS; n++) {
        unsigned arena;
        size_t size = sizeof arena;
        if (mallctl == NULL || mallctl("arenas.create", &arena, &size, NULL, 0) != 0) {
            exit(3);
        }
        size_t bytes = own_bytes, count = own_blocks;
        for (int i = 0; i < COUNT; i++) {
            size = i % 5000 == 0 ? 300000 : 20 + (size_t)i % 1500;
            blocks[i] = memset(mallocx(size, (int)((arena + 1) << 20)), 1, size);
            own_bytes += malloc_usable_size(blocks[i]) + HEADER;
            own_blocks++;
        }
        for (int i = 1; i < COUNT; i += 2) {
            drop(blocks[i]);
        }
        char name[64];
        snprintf(name, sizeof name, "arena.%u.destroy", arena);
        if (n == 0 && mallctl(name, NULL, NULL, NULL, 0) == 0) {
            own_bytes = bytes;
            own_blocks = count;
        }
    }
}

#ifdef __GLIBC__
/* In use by malloc_info: what came from the system, less what is free (the top counts as free). Its
 * stream stays open, so that it is in use to everybody who looks. */
static size_t used_by_malloc_info(void)
{
    static char text[1 << 20];
    FILE *stream = fmemopen(text, sizeof text, "w");
    if (stream == NULL || malloc_info(0, stream) != 0 || fflush(stream) != 0) {
        return 0;
    }
    char *totals = text, *heap;
    while ((heap = strstr(totals, "</heap>")) != NULL) {
        totals = heap + 1;
    }
    size_t fast = 0, rest = 0, mapped = 0, system = 0;
    /* glibc 2.43 has no fast bins. */
    char *at = strstr(totals, "<total type=\"fast\"");
    if (at != NULL) {
        (void)sscanf(at, "<total type=\"fast\" count=\"%*u\" size=\"%zu\"/>", &fast);
    }
    at = strstr(totals, "<total type=\"rest\"");
    if (at == NULL || sscanf(at,
                             "<total type=\"rest\" count=\"%*u\" size=\"%zu\"/> "
                             "<total type=\"mmap\" count=\"%*u\" size=\"%zu\"/> "
                             "<system type=\"current\" size=\"%zu\"/>",
                             &rest, &mapped, &system) != 3) {
        return 0;
    }
    return system - fast - rest + mapped;
}
#endif

int main(int argc, char **argv)
{
    setvbuf(stdout, NULL, _IONBF, 0); /* allocates nothing after the count */
    const char *which = argc > 1 ? argv[1] : "";
    if (strcmp(which, "threads") == 0) {
        start(10, one_small_block);
    } else if (strcmp(which, "arenas") == 0) {
        mallopt(M_ARENA_MAX, 101);
        start(100, a_thousand_blocks);
    } else if (strcmp(which, "holes") == 0) {
        holes();
    } else if (strcmp(which, "leaks") == 0) {
        leaks();
    } else if (strcmp(which, "explicit") == 0) {
        explicit_arenas();
    } else if (strcmp(which, "race") == 0) {
        start(2, never_at_rest);
    } else {
        return 2;
    }
#ifdef __GLIBC__
    size_t info_used = used_by_malloc_info();
    struct mallinfo2 info = mallinfo2();
    size_t used = info.uordblks + info.hblkhd, mapped = info.hblkhd;
#else
    size_t info_used = 0, used = 0, mapped = 0;
#endif
    printf("{\"bytes\": %zu, \"blocks\": %zu, \"mallinfo_used\": %zu, \"mallinfo_mapped\": %zu, "
           "\"malloc_info_used\": %zu}\n",
           own_bytes, own_blocks, used, mapped, info_used);
    pause();
}
