/* SPDX-License-Identifier: MIT
 *
 * What realloc learns of a program: blocks that grow again, and blocks that are built in small steps.
 */
#include "unit.h"

/* What is only made smaller gives its end back; where a block then grows again, others keep theirs for a while. */
TEST(realloc_cuts_no_blocks_that_grow_again)
{
    enum { LARGER = 512 * KiB, SMALLER = 320 * KiB }; /* of pages of up to 64 KiB */
    if (MW_FENCES) {
        return; /* guards begin where a block ends */
    }
    char *block = mw_malloc(LARGER);
    CHECK(mw_realloc(block, SMALLER) == block);
    CHECK_EQ(mw_malloc_usable_size(block), SMALLER);
    block = mw_realloc(block, LARGER);
    for (unsigned i = 0; i < SHRINKS_TO_KEEP - 2; i++) {
        CHECK(mw_realloc(block, SMALLER) == block);
        CHECK_EQ(mw_malloc_usable_size(block), LARGER);
        CHECK(mw_realloc(block, LARGER) == block);
    }
    char *larger = mw_malloc(LARGER);
    memset(larger, 0x5a, LARGER / 2);
    char *half = mw_realloc(larger, LARGER / 2);
    CHECK(half != larger); /* and nothing was cut */
    CHECK_EQ(mw_malloc_usable_size(half), LARGER / 2);
    CHECK_EQ(half[LARGER / 2 - 1], 0x5a);
    CHECK(mw_malloc(LARGER) == larger);
    mw_free(larger);
    mw_free(half);
    CHECK(mw_realloc(block, SMALLER) == block); /* the last one */
    CHECK_EQ(mw_malloc_usable_size(block), LARGER);
    CHECK(mw_realloc(block, SMALLER) == block);
    CHECK_EQ(mw_malloc_usable_size(block), SMALLER);
    mw_free(block);
    block = mw_malloc(SHRINK_KEEP_MAX + MiB);
    heap_own->shrinks_to_keep = 1;
    CHECK(mw_realloc(block, SHRINK_KEEP_MAX) == block);
    CHECK_EQ(mw_malloc_usable_size(block), SHRINK_KEEP_MAX);
    CHECK(mw_realloc(block, SHRINK_KEEP_MAX - MiB) == block);
    CHECK_EQ(mw_malloc_usable_size(block), SHRINK_KEEP_MAX);
    CHECK_EQ(heap_own->shrinks_to_keep, 0);
    mw_free(block);
    CHECK(mw_heap_is_valid());
}

/* The addresses that a block has had once it has grown from one size to another, in steps of `step` bytes. */
static unsigned build(size_t from, size_t to, size_t step, char **block)
{
    unsigned moves = 0;
    *block = mw_malloc(from);
    memset(*block, 0x3c, from);
    for (size_t size = from; size < to;) {
        size += step;
        char *grown = mw_realloc(*block, size);
        moves += grown != *block;
        *block = grown;
        CHECK_EQ(grown[from - 1], 0x3c);
        memset(grown + size - step, 0x3c, step);
    }
    return moves;
}

TEST(realloc_leaves_room_for_a_block_that_is_built)
{
    if (!BUILDS) {
        return; /* blocks are as large as was asked for */
    }
    char *block;
    size_t from = BUILD_MIN;
    size_t to = 64 * BUILD_MIN; /* six doublings: by 1.25 some 19 steps, by classes 48 */
    unsigned moves = build(from, to, 16, &block);
    CHECK_MSG(moves <= 22, "%u", moves);
    CHECK_LT(mw_malloc_usable_size(block), to + to / BUILD_SHARE + to / 8);
    mw_free(block);
    /* Small ones get none: a move for each class. */
    CHECK_EQ(build(64, BUILD_MIN, 16, &block), class_of_small(BUILD_MIN) - class_of_small(64));
    mw_free(block);
    CHECK(mw_heap_is_valid());
}

/* Once may be all: it gets what it asked for, and so do two that grow by turns. */
TEST(realloc_leaves_no_room_for_a_block_that_grows_once)
{
    char *first = mw_malloc(1000);
    char *second = mw_malloc(1000);
    for (size_t size = 1200; size < 8000; size += size / 8) {
        first = mw_realloc(first, size);
        second = mw_realloc(second, size);
        size_t usable = mw_malloc_usable_size(mw_malloc(size));
        CHECK_EQ(mw_malloc_usable_size(first), usable);
        CHECK_EQ(mw_malloc_usable_size(second), usable);
    }
    mw_free(first);
    mw_free(second);
    CHECK(mw_heap_is_valid());
}
