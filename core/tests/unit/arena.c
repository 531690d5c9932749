/* SPDX-License-Identifier: MIT
 *
 * Arenas: extents split, join, grow in place and go back to the kernel.
 */
#include "unit.h"

static struct arena *fresh_arena(void)
{
    mw_free(mw_malloc(1));
    return arena_at(0);
}

TEST(arena_extents_do_not_overlap_and_join_again)
{
    enum { COUNT = 500 };
    static struct extent *extents[COUNT];
    struct arena *arena = fresh_arena();
    uint64_t random = 5;
    for (int round = 0; round < 20; round++) {
        for (size_t i = 0; i < COUNT; i++) {
            if (extents[i] == NULL) {
                size_t pages = 1 + test_random(&random) % 40,
                       alignment = os_page_size << test_random(&random) % 5;
                extents[i] = arena_alloc(arena, pages, alignment);
                CHECK(extents[i] != NULL);
                CHECK_GE(extent_pages(extents[i]), pages);
                CHECK_EQ(extents[i]->start % alignment, 0);
                extent_map_ends(extents[i]);
                memset((void *)extents[i]->start, (int)i, extent_size(extents[i]));
            }
        }
        for (size_t i = 0; i < COUNT; i++) {
            unsigned char *bytes = (unsigned char *)extents[i]->start;
            CHECK_EQ(bytes[0], (unsigned char)i);
            CHECK_EQ(bytes[extent_size(extents[i]) - 1], (unsigned char)i);
            if (test_random(&random) % 2 || round == 19) {
                arena_free(arena, extents[i]);
                extents[i] = NULL;
            }
        }
        CHECK(arena_is_valid(arena));
    }
    arena_purge(arena, 0);
    CHECK(arena_is_valid(arena));
    CHECK_EQ(arena->dirty.pages, 0);
}

TEST(arena_expands_into_free_neighbours_only)
{
    struct arena *arena = fresh_arena();
    struct extent *first = arena_alloc(arena, 10, os_page_size);
    struct extent *second = arena_alloc(arena, 10, os_page_size);
    CHECK(first != NULL && second != NULL);
    extent_map_ends(first);
    extent_map_ends(second);
    if (extent_end(first) == second->start) {
        CHECK(!arena_try_expand(arena, first, 15));
        CHECK_EQ(extent_pages(first), 10);
        arena_free(arena, second);
        CHECK(arena_try_expand(arena, first, 15));
        CHECK_EQ(extent_pages(first), 15);
        arena_shrink(arena, first, 4);
        CHECK_EQ(extent_pages(first), 4);
    }
    CHECK(arena_is_valid(arena));
}

/* Threads of other arenas look at the set before they take the lock. */
TEST(arena_tells_others_of_what_a_smaller_block_leaves)
{
    struct arena *arena = fresh_arena();
    struct extent *block = arena_alloc(arena, 10, os_page_size);
    CHECK(block != NULL);
    arena_purge(arena, 0);
    CHECK(arena_alloc_dirty(arena, 1, os_page_size) == NULL);
    CHECK(!extent_set_may_fit(&arena->dirty, 1));
    arena_shrink(arena, block, 4);
    CHECK_EQ(arena->dirty.pages, 6);
    CHECK(extent_set_may_fit(&arena->dirty, 6));
    CHECK(!extent_set_may_fit(&arena->dirty, 7));
    arena_free(arena, block);
}

static bool all_are(struct extent *extent, size_t pages, int byte)
{
    unsigned char *bytes = (unsigned char *)extent->start;
    for (size_t i = 0; i < pages << os_page_shift; i++) {
        if (bytes[i] != byte) {
            return false;
        }
    }
    return true;
}

/* What is resident and too small serves together with what lies behind it, wherever the alignment
 * wants the block to be: its pages are neither given back nor faulted in again. */
TEST(arena_extends_what_is_resident)
{
    struct arena *arena = fresh_arena();
    const size_t alignments[] = {os_page_size, 64 * KiB, 1 * MiB, REGION_ALIGNMENT};
    for (size_t i = 0; i < array_count(alignments); i++) {
        arena_purge(arena, 0);
        struct extent *small = arena_alloc(arena, 7, alignments[i]);
        CHECK(small != NULL);
        extent_map_ends(small);
        uintptr_t start = small->start;
        memset((void *)start, 0xa5, extent_size(small));
        arena_free(arena, small);
        CHECK_EQ(arena->dirty.pages, 7);
        size_t retained = arena->retained.pages;

        struct extent *large = arena_alloc(arena, 12, alignments[i]);
        CHECK(large != NULL);
        extent_map_ends(large);
        CHECK_EQ(large->start, start);
        CHECK_EQ(extent_pages(large), 12);
        CHECK(!large->is_zero);
        CHECK(all_are(large, 7, 0xa5));
        CHECK_EQ(arena->dirty.pages, 0);
        CHECK_EQ(arena->retained.pages, retained - 5);

        /* Cut out of what is larger, where only the alignment's slack is missing. */
        memset((void *)start, 0xa5, extent_size(large));
        arena_free(arena, large);
        struct extent *part = arena_alloc(arena, 12, alignments[i]);
        CHECK(part != NULL);
        extent_map_ends(part);
        CHECK_EQ(part->start, start);
        CHECK(all_are(part, 12, 0xa5));
        CHECK(arena_is_valid(arena));
    }
}

/* The front was used, what lies behind it was not: calloc clears. */
TEST(arena_extends_and_calloc_clears)
{
    struct arena *arena = fresh_arena();
    mw_collect(true);
    arena_purge(arena, 0);
    struct extent *front = arena_alloc(arena, 70, os_page_size);
    extent_map_ends(front);
    memset((void *)front->start, 0xa5, extent_size(front));
    uintptr_t start = front->start;
    arena_free(arena, front);
    unsigned char *zeros = mw_calloc(1, 100 << os_page_shift);
    CHECK_EQ((uintptr_t)zeros, start);
    CHECK(all_are(pagemap_find(zeros), 100, 0));
    mw_free(zeros);

    /* Less than half is not worth it: the rest is known to be zero elsewhere. */
    mw_collect(true);
    arena_purge(arena, 0);
    front = arena_alloc(arena, 40, os_page_size);
    extent_map_ends(front);
    arena_free(arena, front);
    struct extent *whole = arena_alloc(arena, 100, os_page_size);
    CHECK(whole->is_zero);
    extent_map_ends(whole);
    arena_free(arena, whole);
    CHECK(arena_is_valid(arena));
}

/* Free memory that has not the shape of what is asked for is not kept beside what grows. */
TEST(arena_grows_instead_of_keeping_what_does_not_fit)
{
    enum { COUNT = 64 };
    struct arena *arena = fresh_arena();
    struct extent *small[COUNT], *large[COUNT];
    for (size_t i = 0; i < COUNT; i++) {
        small[i] = arena_alloc(arena, 8, os_page_size);
        extent_map_ends(small[i]);
    }
    for (size_t i = 0; i < COUNT; i += 2) {
        arena_free(arena, small[i]);
    }
    size_t kept = arena->dirty.pages;
    CHECK_GE(kept, COUNT / 2 * 8);
    for (size_t i = 0; i < COUNT; i++) {
        large[i] = arena_alloc(arena, 16, os_page_size);
        extent_map_ends(large[i]);
    }
    CHECK_LT(arena->dirty.pages, kept);
    CHECK_LE(arena->dirty.pages, arena_slack_pages(arena) + GROWTH_MIN / os_page_size);
    for (size_t i = 0; i < COUNT; i++) {
        arena_free(arena, large[i]);
        if (i % 2 != 0) {
            arena_free(arena, small[i]);
        }
    }
    CHECK(arena_is_valid(arena));
}

/* What is given back because the arena grows is faulted in again: not without end. */
TEST(arena_gives_back_because_of_growth_in_bounds)
{
    enum { ROUNDS = 200, PAGES = 100 };
    struct arena *arena = fresh_arena();
    struct extent *held = arena_alloc(arena, 400, os_page_size);
    CHECK(held != NULL);
    size_t in_use = atomic_get(&arena->active_pages);
    for (size_t round = 0; round < ROUNDS; round++) {
        /* Two sizes by turns, neither of which fits where the other was. */
        struct extent *first = arena_alloc(arena, PAGES + round % 2, os_page_size);
        struct extent *wall = arena_alloc(arena, 1, os_page_size);
        arena_free(arena, first);
        struct extent *second = arena_alloc(arena, 2 * PAGES, os_page_size);
        arena_free(arena, second);
        arena_free(arena, wall);
    }
    CHECK_LE(arena->outgrown_pages, size_max(in_use, OUTGROWN_MIN >> os_page_shift) + 4 * PAGES);
    arena_free(arena, held);
    CHECK(arena_is_valid(arena));
}

/* A block that moves into a mapping of its own takes its pages along; its place is free, and zero. */
TEST(arena_moves_blocks_out_of_regions)
{
    struct arena *arena = fresh_arena();
    struct extent *extent = arena_alloc(arena, 300, os_page_size);
    CHECK(extent != NULL && !extent->is_huge);
    memset((void *)extent->start, 0x11, extent_size(extent));
    uintptr_t place = extent->start;
    size_t active = atomic_get(&arena->active_pages);
    if (!arena_try_move(arena, extent, 600)) {
        return; /* a kernel that cannot */
    }
    CHECK(extent->is_huge && extent->region == NULL);
    CHECK_EQ(extent_pages(extent), 600);
    CHECK(all_are(extent, 300, 0x11));
    CHECK(pagemap_find((void *)extent->start) == extent);
    CHECK_EQ(atomic_get(&arena->active_pages), active - 300);
    CHECK(pagemap_find((void *)place) != extent);
    CHECK(((unsigned char *)place)[os_page_size] == 0);
    CHECK(arena_is_valid(arena));
    arena_free(arena, extent);
    CHECK(arena_is_valid(arena));
}

/* Allocates `count` blocks of 1 MiB and writes `share` of each; returns for how many regions huge pages were asked. */
static unsigned huge_regions(struct arena *arena, struct extent **extents, size_t count,
                             size_t share)
{
    for (size_t i = 0; i < count; i++) {
        extents[i] = arena_alloc(arena, MiB >> os_page_shift, os_page_size);
        CHECK(extents[i] != NULL);
        memset((void *)extents[i]->start, 1, MiB / share);
    }
    unsigned huge = 0;
    for (struct region *region = arena->regions; region != NULL; region = region->next) {
        huge += region->huge_pages == HUGE_PAGES_ASKED;
    }
    return huge;
}

/* However long they take here. */
static bool kernel_has_huge_pages(void)
{
    atomic_set(&huge_page_ns_most, UINT64_MAX);
    void *probe = os_map_aligned(NULL, REGION_ALIGNMENT, REGION_ALIGNMENT);
    return probe != NULL && os_ask_for_huge_pages(probe, REGION_ALIGNMENT);
}

/* What was written to throughout so far will be so, and where something went back no huge page is to come. */
TEST(arena_asks_for_huge_pages_where_it_is_dense)
{
    struct extent *extents[40];
    struct arena *arena = fresh_arena();
    if (!kernel_has_huge_pages()) {
        return;
    }
    CHECK_GE(huge_regions(arena, extents, 40, 1), 1);
    struct extent *last = extents[39];
    CHECK(last->region->huge_pages == HUGE_PAGES_ASKED);
    CHECK_GE(last->region->huge_page_bytes, REGION_ALIGNMENT);
    for (size_t i = 0; i < 40; i += 2) {
        arena_free(arena, extents[i]);
    }
    arena_purge(arena, 0);
    CHECK(last->region->huge_pages == HUGE_PAGES_REFUSED);
    CHECK_EQ(last->region->huge_page_bytes, 0);
    CHECK(((char *)last->start)[MiB - 1] == 1 && arena_is_valid(arena));
}

/* Where the first takes too long, the region gets no others, and the next ones do not ask. */
TEST(arena_asks_for_no_huge_pages_where_they_take_long)
{
    struct extent *extents[40], *others[100];
    struct arena *arena = fresh_arena();
    if (!kernel_has_huge_pages()) {
        return;
    }
    atomic_set(&huge_page_ns_most, 0);
    CHECK_EQ(huge_regions(arena, extents, 40, 1), 0);
    CHECK(extents[39]->region->huge_pages == HUGE_PAGES_REFUSED);
    atomic_set(&huge_page_ns_most, UINT64_MAX);
    CHECK_EQ(huge_regions(arena, others, 100, 1), 0);
}

TEST(arena_does_not_ask_for_huge_pages_where_it_is_sparse)
{
    struct extent *extents[40];
    CHECK_EQ(huge_regions(fresh_arena(), extents, 40, 256), 0);
}

/* In a huge page all is resident, written to or not; so that what is sparse in it looks dense for ever must not be. */
TEST(arena_asks_for_no_more_huge_pages_when_it_becomes_sparse)
{
    struct extent *dense[100], *sparse[200];
    struct arena *arena = fresh_arena();
    if (!kernel_has_huge_pages()) {
        return;
    }
    unsigned before = huge_regions(arena, dense, 100, 1);
    CHECK_GE(before, 2);
    unsigned after = huge_regions(arena, sparse, 200, 256);
    CHECK_MSG(after <= before + 1, "%u regions with huge pages, then %u", before, after);
}

TEST(arena_does_not_ask_for_huge_pages_unasked)
{
    struct extent *extents[40];
    struct arena *arena = fresh_arena();
    option_set(OPTION_ask_resident, false);
    CHECK_EQ(huge_regions(arena, extents, 40, 1), 0);
    option_set(OPTION_ask_resident, true);
    os_note_confined();
    CHECK_EQ(huge_regions(arena, extents, 40, 1), 0);
    atomic_set(&is_confined, false);
    os_refuses_huge_pages = true;
    CHECK_EQ(huge_regions(arena, extents, 40, 1), 0);
}

/* What goes back and is used again is counted, once, whichever extents it was cut from or joined with. */
TEST(arena_counts_pages_that_come_again)
{
    enum { PAGES = 40 };
    struct arena *arena = fresh_arena();
    struct extent *first = arena_alloc(arena, PAGES, os_page_size);
    struct extent *second = arena_alloc(arena, PAGES, os_page_size);
    CHECK(first != NULL && second != NULL);
    arena_free(arena, first);
    arena_free(arena, second);
    size_t went = arena->dirty.pages;
    uint64_t before = arena->pages_refaulted;
    arena_purge(arena, 0);
    CHECK_EQ(arena->pages_refaulted, before);

    /* More than went: the rest was never in use. */
    struct extent *parts[8];
    size_t taken = 0;
    for (size_t i = 0; i < array_count(parts); i++) {
        parts[i] = arena_alloc(arena, PAGES / 2, os_page_size);
        CHECK(parts[i] != NULL);
        taken += PAGES / 2;
    }
    CHECK_GE(taken, went);
    CHECK_EQ(arena->pages_refaulted, before + went);
    for (size_t i = 0; i < array_count(parts); i++) {
        arena_free(arena, parts[i]);
    }
    arena_purge(arena, 0);
    struct extent *again = arena_alloc(arena, PAGES / 2, os_page_size);
    CHECK(again != NULL);
    CHECK_EQ(arena->pages_refaulted, before + went + PAGES / 2);
    CHECK(arena_try_expand(arena, again, PAGES));
    CHECK_EQ(arena->pages_refaulted, before + went + PAGES);
    arena_free(arena, again);

    size_t huge_pages = 2 * HUGE_ABOVE >> os_page_shift;
    struct extent *huge = arena_alloc(arena, huge_pages, os_page_size);
    CHECK(huge != NULL);
    before = arena->pages_refaulted;
    arena_free(arena, huge);
    arena_purge(arena, 0);
    huge = arena_alloc(arena, 2 * huge_pages, os_page_size);
    CHECK(huge != NULL);
    CHECK_EQ(arena->pages_refaulted, before + huge_pages);
    arena_free(arena, huge);
}

/* Free pages that are used between two looks have not been free since the first one. */
TEST(arena_tells_decay_of_free_pages_that_are_used)
{
    enum { PAGES = 16 };
    struct arena *arena = fresh_arena();
    size_t huge_pages = 2 * HUGE_ABOVE >> os_page_shift;
    arena_purge(arena, 0);
    struct extent *small = arena_alloc(arena, PAGES, os_page_size);
    struct extent *huge = arena_alloc(arena, huge_pages, os_page_size);
    CHECK(small != NULL && huge != NULL && huge->is_huge);
    arena_free(arena, small);
    arena_free(arena, huge);
    arena->dirty_decay.pages_before = PAGES + huge_pages;
    small = arena_alloc(arena, PAGES, os_page_size);
    CHECK_EQ(arena->dirty_decay.pages_before, huge_pages);
    huge = arena_alloc(arena, huge_pages, os_page_size);
    CHECK_EQ(arena->dirty_decay.pages_before, 0);
    arena_free(arena, small);
    arena_free(arena, huge);
    CHECK_EQ(arena->dirty_decay.pages_before, 0);
    arena_purge(arena, 0);
}

/* In the strict mode of seccomp nothing goes back; other threads find it. */
TEST(arena_keeps_dirty_what_a_strict_thread_may_not_give_back)
{
    enum { PAGES = 16 };
    struct arena *arena = fresh_arena();
    mw_free(mw_malloc(1));
    arena_free(arena, arena_alloc(arena, PAGES, os_page_size));
    size_t dirty = arena->dirty.pages;
    CHECK_GE(dirty, PAGES);
    thread_note_strict(true);
    CHECK_EQ(arena_purge(arena, 0), 0);
    CHECK_EQ(arena->dirty.pages, dirty);
    thread_note_strict(false);
    CHECK_GE(arena_purge(arena, 0), dirty);
    CHECK_EQ(arena->dirty.pages, 0);
}

/* The field that counts them has another meaning while a block is in use. */
TEST(arena_leaves_the_sample_of_a_block_alone)
{
    struct arena *arena = fresh_arena();
    arena_purge(arena, 0);
    struct extent *block = arena_alloc(arena, 40, os_page_size);
    CHECK(block != NULL);
    block->slab.sample_stack = 12345;
    arena_shrink(arena, block, 10);
    CHECK_EQ(block->slab.sample_stack, 12345);
    arena_purge(arena, 0);
    CHECK(arena_try_expand(arena, block, 30));
    CHECK_EQ(block->slab.sample_stack, 12345);
    arena_free(arena, block);
    arena_purge(arena, 0);
    CHECK(arena_is_valid(arena));
}
