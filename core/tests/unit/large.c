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

static size_t free_huge_bytes(void)
{
    size_t pages = 0;
    for (unsigned i = 0; i < arena_count(); i++) {
        pages += arena_at(i)->huge.pages;
    }
    return pages << os_page_shift;
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
    if (!MW_FENCES) { /* there free blocks are not cut */
        CHECK_LT(free_huge_bytes(), most + most / 2);
    }
    CHECK(mw_heap_is_valid());
}

/* Vectors that grow beside each other by a half of their size: what one leaves free serves another one. */
TEST(large_vectors_that_grow_at_a_time_use_the_same_memory)
{
    if (MW_FENCES) {
        return; /* there free blocks are not cut */
    }
    enum { VECTORS = 6 };
    size_t most = 32 * MiB;
    char *vectors[VECTORS] = {0};
    size_t sizes[VECTORS] = {0};
    mw_collect(true);
    uint64_t random = 1;
    size_t used_most = 0;
    size_t free_most = 0;
    for (int step = 0; step < 300; step++) {
        random = random * 6364136223846793005u + 1442695040888963407u;
        unsigned i = (unsigned)(random >> 33) % VECTORS;
        size_t size = sizes[i] == 0 ? 256 * KiB + 1000 * i : sizes[i] + sizes[i] / 2;
        if (size > most) {
            mw_free(vectors[i]);
            vectors[i] = NULL;
            sizes[i] = 0;
            continue;
        }
        vectors[i] = mw_realloc(vectors[i], size);
        CHECK(sizes[i] == 0 || vectors[i][sizes[i] - 1] == (char)i);
        memset(vectors[i] + sizes[i], (int)i, size - sizes[i]);
        sizes[i] = size;
        size_t used = 0;
        for (unsigned k = 0; k < VECTORS; k++) {
            used += sizes[k];
        }
        used_most = size_max(used_most, used);
        free_most = size_max(free_most, free_huge_bytes());
    }
    for (unsigned i = 0; i < VECTORS; i++) {
        mw_free(vectors[i]);
    }
    CHECK_LT(free_most, used_most + used_most / 2);
    CHECK(mw_heap_is_valid());
}

/* Small steps are cheaper with page tables moved; what is free beside the block goes back for what is new in it. */
TEST(large_growth_in_small_steps_gives_back_what_is_free)
{
    enum { BLOCKS = 4 };
    char *blocks[BLOCKS];
    char *between[BLOCKS]; /* so that free ones stay apart, and nothing grows where it is */
    mw_collect(true);
    for (int i = 0; i < BLOCKS; i++) {
        blocks[i] = mw_malloc(16 * MiB);
        memset(blocks[i], 1, 16 * MiB);
        between[i] = mw_malloc(9 * MiB);
    }
    char *growing = mw_malloc(32 * MiB);
    memset(growing, 1, 32 * MiB);
    for (int i = 0; i < BLOCKS; i++) {
        mw_free(blocks[i]);
    }
    size_t before = free_huge_bytes();
    for (size_t size = 33 * MiB; size <= 64 * MiB; size += MiB) {
        growing = mw_realloc(growing, size);
    }
    CHECK_LT(free_huge_bytes(), before - 8 * MiB);
    for (int i = 0; i < BLOCKS; i++) {
        mw_free(between[i]);
    }
    mw_free(growing);
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
