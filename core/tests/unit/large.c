/* SPDX-License-Identifier: MIT
 *
 * Large blocks: page-granular, resized in place where there is room.
 */
#include "unit.h"

TEST(large_blocks_are_page_granular)
{
    for (size_t size = SLOT_MAX + 1; size < 4 * MiB; size = size * 9 / 8) {
        char *block = mw_malloc(size);
        struct extent *extent = pagemap_find(block);
        CHECK(!extent_is_slab(extent));
        CHECK_EQ((uintptr_t)block % os_page_size, 0);
        CHECK_LT(extent_size(extent), size + size / 8 + os_page_size);
        mw_free(block);
    }
}

TEST(large_shrink_stays_in_place)
{
    char *block = mw_malloc(800 * KiB);
    memset(block, 1, 800 * KiB);
    char *smaller = mw_realloc(block, 500 * KiB);
    CHECK(smaller == block);
    CHECK_LT(mw_malloc_usable_size(block), 520 * KiB);
    mw_free(block);
    CHECK(mw_heap_is_valid());
}

/* As a vector grows, again and again: what the last one left serves the next one. */
TEST(large_growth_takes_what_is_free)
{
    size_t most = 32 * MiB;
    mw_collect(true);
    for (int round = 0; round < 6; round++) {
        char *block = NULL;
        for (size_t size = 256 * KiB, old = 0; old < most; size += size / 2) {
            size = size_min(size, most);
            block = mw_realloc(block, size);
            memset(block + old, round + 1, size - old);
            CHECK_EQ(block[old / 2], round + 1);
            old = size;
        }
        mw_free(block);
    }
    size_t free_pages = 0;
    for (unsigned i = 0; i < arena_count(); i++) {
        free_pages += arena_at(i)->huge.pages;
    }
    if (!MW_FENCES) { /* there free blocks are not cut */
        CHECK_LT(free_pages << os_page_shift, most + most / 2);
    }
    CHECK(mw_heap_is_valid());
}

/* Images, one after the other: what a step needs comes from the free memory that the step before left. */
TEST(large_steps_take_what_a_huge_block_left)
{
    if (MW_FENCES) {
        return; /* there free blocks are not cut */
    }
    mw_collect(true);
    size_t most = 32 * MiB;
    char *huge = mw_malloc(most);
    memset(huge, 1, most);
    mw_free(huge);
    char *half = mw_malloc(600 * KiB);
    char *block = mw_malloc(1 * MiB);
    char *behind = mw_malloc(1 * MiB);
    memset(block, 2, 1 * MiB);
    for (size_t size = 2 * MiB; size <= 8 * MiB; size *= 2) {
        block = mw_realloc(block, size);
        CHECK(block >= huge && block + size <= huge + most && block[MiB - 1] == 2);
        memset(block, 2, size);
    }
    CHECK(half >= huge && half < huge + most);
    CHECK(behind >= huge && behind < huge + most);
    mw_free(half);
    mw_free(block);
    mw_free(behind);
    CHECK(mw_heap_is_valid());
}

TEST(large_known_zero_pages_are_zero)
{
    for (int round = 0; round < 50; round++) {
        size_t size = 100 * KiB + (size_t)round * 40 * KiB;
        unsigned char *zeros = mw_calloc(1, size);
        for (size_t i = 0; i < size; i++) {
            CHECK_EQ(zeros[i], 0);
        }
        memset(zeros, 0xff, size);
        mw_free(zeros);
        if (round % 10 == 9) {
            mw_collect(true);
        }
    }
}

/* Free reads these where it does not look at the slab. */
TEST(large_reciprocals_are_those_of_slabs)
{
    for (unsigned class = 0; class < CLASSES; class ++) {
        CHECK_EQ(list_reciprocals[class], UINT64_MAX / class_size(class) + 1);
    }
    for (unsigned class = CLASSES; class < LIST_CLASSES; class ++) {
        CHECK_EQ(list_reciprocals[class], 1);
    }
}
