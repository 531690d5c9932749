/* SPDX-License-Identifier: MIT
 *
 * Where blocks come to lie: prints distances that an attacker would like to know in advance, a name
 * and a number a line. layout.py runs this program many times and says how well they can be guessed.
 * Each distance is taken at the same point of the same program, after the same allocations.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum { SMALL = 48, MEDIUM = 2000, PAGE_SIZED = 4096, LARGE = 300 << 10, USED = 200 };

static uintptr_t take(size_t size)
{
    void *volatile block = malloc(size);
    if (block == NULL) {
        fprintf(stderr, "layout: no memory\n");
        exit(2);
    }
    *(volatile char *)block = 1;
    return (uintptr_t)block;
}

static void say(const char *name, uintptr_t from, uintptr_t to)
{
    printf("%s %jd\n", name, (intmax_t)(to - from));
}

/* From a block to the one that is allocated next: what an overflow hits. */
static void next_of(const char *name, size_t size)
{
    uintptr_t first = take(size);
    say(name, first, take(size));
}

/* From a freed block to the one that is allocated next: 0 where it is used again at once. */
static void again(const char *name, size_t size)
{
    uintptr_t block = take(size);
    void *volatile hidden = (void *)block;
    take(size);
    free(hidden);
    say(name, block, take(size));
}

int main(void)
{
    static char buffer[4096];
    setvbuf(stdout, buffer, _IOFBF, sizeof(buffer)); /* stdio allocates nothing */
    void *used[USED];
    for (int i = 0; i < USED; i++) {
        used[i] = (void *)take(16 + (size_t)i % 13 * 24);
    }
    for (int i = 0; i < USED; i += 2) {
        free(used[i]);
    }
    next_of("next-small", SMALL);
    next_of("next-medium", MEDIUM);
    next_of("next-page", PAGE_SIZED);
    next_of("next-large", LARGE);
    again("again-small", SMALL);
    again("again-page", PAGE_SIZED);
    again("again-large", LARGE);
    uintptr_t small = take(SMALL);
    say("small-to-page", small, take(PAGE_SIZED));
    say("small-to-large", small, take(LARGE));
    say("small-to-libc", small, (uintptr_t)&fprintf);
    say("large-to-libc", take(LARGE), (uintptr_t)&fprintf);
    return 0;
}
