/* SPDX-License-Identifier: MIT
 *
 * What a heap keeps for its next requests: slots of slabs without an owner, large blocks, empty
 * slabs; and that nothing of it is lost.
 */
#include "unit.h"

enum { SIZE = 4 * KiB, COUNT = 400 };

static char *blocks[COUNT];

static void fill(size_t size)
{
    for (size_t i = 0; i < COUNT; i++) {
        blocks[i] = mw_malloc(size);
        memset(blocks[i], (int)i, size);
    }
}

static void release(void)
{
    for (size_t i = 0; i < COUNT; i++) {
        mw_free(blocks[i]);
        blocks[i] = NULL;
    }
}

/* The first blocks of `fill` lie in slabs that are full and so have no owner. */
TEST(heap_keeps_slots_of_full_slabs)
{
    fill(SIZE);
    struct extent *first = pagemap_find(blocks[0]);
    CHECK(atomic_get(&first->slab.owner) == NULL);
    char *freed = blocks[0];
    mw_free(freed);
    CHECK(atomic_get(&first->slab.owner) == NULL);
    CHECK(heap_own->free[class_of(SIZE)] == (struct slot *)freed);
    blocks[0] = mw_malloc(SIZE);
    CHECK(blocks[0] == freed);
    release();
    CHECK(mw_heap_is_valid());
}

TEST(heap_keeps_few_slots)
{
    fill(SIZE);
    for (size_t i = 0; i < COUNT / 2; i++) {
        mw_free(blocks[i]);
        blocks[i] = NULL;
    }
    CHECK_LE(heap_own->bins[class_of(SIZE)].kept, KEPT_SLOTS);
    CHECK(mw_heap_is_valid());
    release();
    struct usage usage = usage_now();
    CHECK_EQ(usage.slab_used_bytes, 0);
}

TEST(heap_gives_kept_slots_back)
{
    fill(SIZE);
    release();
    mw_collect(true);
    CHECK(heap_own->free[class_of(SIZE)] == NULL);
    struct usage usage = usage_now();
    CHECK_EQ(usage.slab_bytes, 0);
    CHECK(mw_heap_is_valid());
}

static void free_kept_slot_twice(void)
{
    fill(SIZE);
    mw_free(blocks[0]);
    mw_free(blocks[0]);
}

TEST(heap_finds_a_double_free_of_a_kept_slot)
{
    check_aborts(free_kept_slot_twice, "double free");
}

/* Slots of a slab that became empty and begins anew lie in order, and are all there. */
TEST(heap_empty_slabs_begin_anew)
{
    enum { SMALL = 48 };
    for (int round = 0; round < 20; round++) {
        fill(SMALL);
        for (size_t i = 0; i < COUNT; i++) {
            for (size_t at = 0; at < SMALL; at++) {
                CHECK_EQ(blocks[i][at], (char)i);
            }
        }
        release();
        CHECK(mw_heap_is_valid());
    }
}

/* --- Large blocks ------------------------------------------------------------------------------ */

static void *malloc_pages(size_t pages)
{
    process_init(); /* for the page size */
    return mw_malloc(pages << os_page_shift);
}

static struct extent *kept_block(size_t pages)
{
    char *block = malloc_pages(pages);
    struct extent *extent = pagemap_find(block);
    mw_free(block);
    CHECK(extent_state(extent) == EXTENT_CACHED);
    return extent;
}

TEST(heap_keeps_blocks_that_fit)
{
    struct extent *extent = kept_block(80);
    CHECK(cache_take(heap_own, 81) == NULL);
    CHECK(cache_take(heap_own, 71) == NULL);
    char *fits = malloc_pages(72);
    CHECK(pagemap_find(fits) == extent);
    mw_free(fits);
    CHECK_EQ(heap_own->cache_bytes, extent_size(extent));
    CHECK(mw_heap_is_valid());
}

TEST(heap_takes_the_smallest_block_that_fits)
{
    struct extent *extents[4];
    static const size_t pages[] = {109, 103, 101, 108};
    char *held[4];
    for (unsigned i = 0; i < 4; i++) {
        held[i] = malloc_pages(pages[i]);
        extents[i] = pagemap_find(held[i]);
    }
    for (unsigned i = 0; i < 4; i++) {
        mw_free(held[i]);
    }
    char *block = malloc_pages(102);
    CHECK(pagemap_find(block) == extents[1]);
    mw_free(block);
}

TEST(heap_makes_room_for_the_block_freed_last)
{
    char *held[2 * CACHE_BLOCKS];
    for (size_t i = 0; i < 2 * CACHE_BLOCKS; i++) {
        held[i] = malloc_pages(40 + i);
    }
    size_t kept = 0;
    for (size_t i = 0; i < 2 * CACHE_BLOCKS; i++) {
        struct extent *extent = pagemap_find(held[i]);
        mw_free(held[i]);
        CHECK(extent_state(extent) == EXTENT_CACHED);
    }
    for (size_t i = 0; i < CACHE_BLOCKS; i++) {
        kept += heap_own->cache_pages[i];
    }
    CHECK_EQ(kept << os_page_shift, heap_own->cache_bytes);
    heap_flush_cache(heap_own);
    CHECK_EQ(heap_own->cache_bytes, 0);
    CHECK(mw_heap_is_valid());
}

/* Blocks that leave the cache for a size that none of them fits are a release like any other. */
TEST(heap_notes_what_leaves_the_cache)
{
    mw_free(malloc_pages(40));
    mw_free(malloc_pages(80));
    CHECK(heap_own->cache_bytes != 0);
    heap_own->released_ms = UINT64_MAX;
    char *block = malloc_pages(100);
    CHECK_EQ(heap_own->cache_bytes, 0);
    CHECK_EQ(heap_own->list_max, HEAP_LIST_SHORT);
    CHECK_EQ(heap_own->released_ms, atomic_get(&heaps.tick_ms));
    mw_free(block);
}

/* A free huge block is made larger where none is large enough: what it has is resident already. */
TEST(heap_grows_a_free_huge_block)
{
    size_t size = 10 * MiB; /* larger than what a heap keeps */
    char *block = mw_malloc(size);
    memset(block, 1, size);
    struct extent *extent = pagemap_find(block);
    mw_free(block);
    CHECK(extent_state(extent) == EXTENT_DIRTY);
    char *larger = mw_malloc(size + size / 2);
    CHECK(pagemap_find(larger) == extent);
    CHECK_EQ(extent_size(extent), size + size / 2);
    memset(larger, 2, size + size / 2);
    mw_free(larger);
    unsigned char *zeros = mw_calloc(1, 18 * MiB);
    for (size_t i = 0; i < 18 * MiB; i += 64) {
        CHECK_EQ(zeros[i], 0);
    }
    mw_free(zeros);
    CHECK(mw_heap_is_valid());
}

/* Sizes whose low bits are those of a kept block: only a bound on the size tells them apart. */
TEST(heap_keeps_nothing_for_sizes_that_cannot_be)
{
    char *held[CACHE_BLOCKS];
    for (size_t i = 0; i < CACHE_BLOCKS; i++) {
        held[i] = malloc_pages(40 + i);
    }
    for (size_t i = 0; i < CACHE_BLOCKS; i++) {
        mw_free(held[i]);
    }
    static const size_t low[] = {0, 1, 9, 40, 50, 54};
    for (size_t i = 0; i < array_count(low); i++) {
        for (unsigned bit = 44; bit <= 62; bit++) {
            size_t size = ((size_t)1 << bit) + (low[i] << os_page_shift);
            char *block = mw_malloc(size);
            CHECK_MSG(block == NULL || pagemap_find(block)->is_huge, "%#zx", size);
            CHECK(block == NULL || mw_malloc_usable_size(block) >= size);
            mw_free(block);
        }
    }
}

/* What a heap holds in its list belongs to a slab that nothing else is used of. */
TEST(heap_collects_slabs_whose_last_slots_it_keeps)
{
    fill(SIZE);
    release();
    fill(SIZE);
    release();
    mw_collect(true);
    CHECK_EQ(usage_now().slab_bytes, 0);
    CHECK_EQ(heap_own->empty_bytes, 0);
}
