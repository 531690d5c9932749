/* SPDX-License-Identifier: MIT
 *
 * Blocks that get another size where they are, and are held: run.py knows how many bytes that is. Of those whose pages
 * may be kept this program says it.
 * resized MODE
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SLOTS = 8000, PAGES = 400, STEPS = 4 };

#define NOINLINE __attribute__((noinline))

__attribute__((weak)) int mallctl(const char *name, void *old_value, size_t *old_size,
                                  void *new_value, size_t new_size);
__attribute__((weak)) void *mallocx(size_t size, int flags);
__attribute__((weak)) void *rallocx(void *block, size_t size, int flags);
__attribute__((weak)) size_t xallocx(void *block, size_t size, size_t extra, int flags);
size_t malloc_usable_size(void *block);

static void *held[6 * SLOTS];
static size_t held_count;

static void hold(void *block)
{
    if (block == NULL) {
        abort();
    }
    held[held_count++] = block;
    __asm__ volatile("");
}

/* Each block is made longer by a byte, some times: it has room for that. */
NOINLINE void slots_stay(void)
{
    for (int i = 0; i < SLOTS; i++) {
        void *block = malloc(1000);
        for (size_t step = 1; step < STEPS; step++) {
            block = realloc(block, 1000 + step);
        }
        hold(block);
    }
}

NOINLINE void pages_stay(void)
{
    for (int i = 0; i < PAGES; i++) {
        void *block = malloc(100000);
        for (size_t step = 1; step < STEPS; step++) {
            block = realloc(block, 100000 + step);
        }
        hold(block);
    }
}

/* More than half of a slot stays in use, so it is kept. */
NOINLINE void slots_are_kept(void)
{
    for (int i = 0; i < SLOTS; i++) {
        hold(realloc(malloc(2000), 1500));
    }
}

/* Some grow again, so the next are not cut. Returns the bytes of all. */
NOINLINE size_t pages_are_kept(void)
{
    size_t bytes = 0;
    for (int i = 0; i < PAGES; i++) {
        void *block = realloc(malloc(100000), 70000);
        block = i % 4 == 0 ? realloc(block, 95000) : block;
        bytes += malloc_usable_size(block);
        hold(block);
    }
    return bytes;
}

/* A sample is aligned anyway, most slots are not. */
NOINLINE void aligned_again(void)
{
    for (int i = 0; i < SLOTS; i++) {
        hold(rallocx(malloc(72), 70, 6));
    }
}

NOINLINE void cut_in_place(void)
{
    for (int i = 0; i < PAGES; i++) {
        void *block = mallocx(163840, 0);
        if (xallocx(block, 81920, 0, 0) != 81920) {
            abort();
        }
        hold(block);
    }
}

NOINLINE void grown_in_place(void)
{
    for (int i = 0; i < PAGES; i++) {
        void *block = mallocx(163840, 0);
        if (xallocx(block, 40960, 0, 0) != 40960 || xallocx(block, 81920, 0, 0) != 81920) {
            abort();
        }
        hold(block);
    }
}

/* A sample may lie on more pages than it counts with, but has no more bytes. */
static void grow_at_random(void)
{
    void *blocks[64] = {NULL};
    unsigned random = 1;
    for (int i = 0; i < 20000; i++) {
        random = random * 1664525 + 1013904223;
        void **block = &blocks[random >> 26];
        if (*block != NULL && i % 2 == 0) {
            free(*block);
            *block = NULL;
            continue;
        }
        size_t more = (*block == NULL ? 40000 : 0) + random / 1024 % 20000;
        size_t size = malloc_usable_size(*block) + more;
        *block = realloc(*block, size);
        if (malloc_usable_size(*block) < size) {
            abort();
        }
    }
    for (int i = 0; i < 64; i++) {
        free(blocks[i]);
    }
}

int main(int argc, char **argv)
{
    slots_stay();
    pages_stay();
    slots_are_kept();
    fprintf(stderr, "kept %zu\n", pages_are_kept());
    aligned_again();
    cut_in_place();
    if (argc > 1 && strcmp(argv[1], "debug") != 0) { /* where blocks do not grow in place */
        grown_in_place();
    }
    const char *name = "resized.heap";
    int error = mallctl("prof.dump", NULL, NULL, &name, sizeof name);
    grow_at_random();
    return error;
}
