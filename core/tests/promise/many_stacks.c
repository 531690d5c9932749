/* SPDX-License-Identifier: MIT
 *
 * A program with thousands of call stacks under the debug build: blocks on pages of their own, each of which costs three
 * calls of the kernel, are all blocks of its first stacks and few of the later ones; with guard_first they
 * are those that the user asked for. Run with the number that is asked for, or without.
 */
#include "promise.h"

enum { DEPTH = 12, STACKS = 3000, BLOCKS_OF_FIRST = 8, FIRST_STACKS = 40, SIZE = 64 };

static char *blocks[STACKS * BLOCKS_OF_FIRST];
static size_t count;

/* Each path is another stack: at each level it is one of two calls that leads on. */
__attribute__((noinline)) static void allocate_by(unsigned path, int depth, int times)
{
    if (depth == 0) {
        for (int i = 0; i < times; i++) {
            CHECK((blocks[count++] = malloc(SIZE)) != NULL);
        }
    } else if (path & 1) {
        allocate_by(path >> 1, depth - 1, times);
        __asm__ volatile("# left" ::: "memory");
    } else {
        allocate_by(path >> 1, depth - 1, times);
        __asm__ volatile("# right" ::: "memory");
    }
}

/* Whether the byte behind a block cannot be read. */
static bool is_guarded(const char *block)
{
    static int ends[2];
    if (ends[1] == 0) {
        CHECK_EQ(pipe(ends), 0);
    }
    char byte;
    bool can_be_read = write(ends[1], block + SIZE, 1) == 1;
    CHECK(!can_be_read || read(ends[0], &byte, 1) == 1);
    return !can_be_read;
}

static size_t guarded(size_t from, size_t to)
{
    size_t found = 0;
    for (size_t i = from; i < to; i++) {
        found += is_guarded(blocks[i]);
    }
    return found;
}

int main(int argc, char **argv)
{
    bool is_asked = argc > 1;
    int asked = is_asked ? atoi(argv[1]) : 0;
    for (unsigned path = 0; path < STACKS; path++) {
        int times = is_asked ? asked + 1 : path < FIRST_STACKS ? BLOCKS_OF_FIRST : 1;
        allocate_by(path, DEPTH, times);
    }
    size_t all = guarded(0, count);
    size_t of_first = FIRST_STACKS * BLOCKS_OF_FIRST;
    printf("%zu of %zu blocks are guarded\n", all, count);
    if (is_asked) {
        CHECK_EQ(all, (size_t)STACKS * (size_t)asked);
        return 0;
    }
    CHECK_EQ(guarded(0, of_first), of_first);
    /* 2,048 altogether, some of which are the C library's, and a sixteenth of what comes then. */
    CHECK(all > 1900 && all < 2048 + STACKS / 8);
    CHECK(guarded(count - 800, count) > 0);
    return 0;
}
