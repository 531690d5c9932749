/* SPDX-License-Identifier: MIT
 *
 * What realloc learns of a program: blocks that are made smaller and grow again, and blocks that are built in small steps.
 */
#include "unit.h"

/* What is only made smaller gives its end back; where a block then grows again, others keep theirs, as much as the
 * growth is worth. */
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
    uint32_t kept = (LARGER - SMALLER) >> os_page_shift;
    CHECK_EQ(heap_own->shrink_pages_to_keep, SHRINKS_WORTH * kept);
    for (unsigned i = 0; i < 100; i++) { /* the same block again and again costs nothing more */
        CHECK(mw_realloc(block, SMALLER) == block);
        CHECK_EQ(mw_malloc_usable_size(block), LARGER);
        CHECK(mw_realloc(block, LARGER) == block);
    }
    CHECK_EQ(heap_own->shrink_pages_to_keep, (SHRINKS_WORTH - 1) * kept);
    char *others[SHRINKS_WORTH];
    for (unsigned i = 0; i < SHRINKS_WORTH; i++) {
        others[i] = mw_malloc(LARGER);
        CHECK(mw_realloc(others[i], SMALLER) == others[i]);
        CHECK_EQ(mw_malloc_usable_size(others[i]), i < SHRINKS_WORTH - 1 ? LARGER : SMALLER);
    }
    CHECK_EQ(heap_own->shrink_pages_to_keep, 0);
    memset(block, 0x5a, LARGER / 8);
    char *eighth = mw_realloc(block, LARGER / 8);
    CHECK(eighth != block); /* and nothing was cut */
    CHECK_EQ(mw_malloc_usable_size(eighth), LARGER / 8);
    CHECK_EQ(eighth[LARGER / 8 - 1], 0x5a);
    CHECK(mw_malloc(LARGER) == block);
    CHECK(mw_realloc(block, SMALLER) == block); /* so were its pages for another block */
    CHECK_EQ(mw_malloc_usable_size(block), LARGER);
    mw_free(eighth);
    mw_free(block);
    for (unsigned i = 0; i < SHRINKS_WORTH; i++) {
        mw_free(others[i]);
    }
    CHECK(mw_heap_is_valid());
}

/* Malloc may give a larger block than was asked for: that is no reason to cut it, nor to believe that blocks grow again. */
TEST(realloc_cuts_no_block_that_was_made_larger)
{
    if (MW_FENCES) {
        return;
    }
    process_init();
    size_t page = os_page_size;
    char *blocks[] = {mw_malloc(22 * page), mw_malloc(88 * page), mw_malloc(256 * page)};
    heap_own->stack_limit = SIZE_MAX; /* what is cached stays so */
    for (unsigned i = 0; i < array_count(blocks); i++) {
        mw_free(blocks[i]);
    }
    char *block = mw_malloc(16 * page);
    CHECK_EQ(mw_malloc_usable_size(block), 22 * page);
    size_t sizes[] = {16 * page - 1, 18 * page, 22 * page, 16 * page, 20 * page + 1};
    for (unsigned i = 0; i < array_count(sizes); i++) {
        CHECK(mw_realloc(block, sizes[i]) == block);
        CHECK_EQ(mw_malloc_usable_size(block), 22 * page);
    }
    CHECK(mw_realloc(block, 14 * page) == block); /* malloc would not give it for so little */
    CHECK_EQ(mw_malloc_usable_size(block), 14 * page);
    block = mw_malloc(64 * page);
    CHECK_EQ(mw_malloc_usable_size(block), 88 * page);
    CHECK(mw_realloc(block, 96 * page) != NULL);
    CHECK_EQ(heap_own->shrink_pages_to_keep, 0);
    CHECK(mw_heap_is_valid());
}

/* That is over when the block has been with an arena, which gives as much as was asked for. */
TEST(realloc_cuts_a_block_that_had_been_made_larger_for_another)
{
    if (MW_FENCES) {
        return;
    }
    process_init();
    size_t page = os_page_size;
    char *blocks[] = {mw_malloc(22 * page), mw_malloc(128 * page), mw_malloc(128 * page)};
    heap_own->stack_limit = SIZE_MAX; /* what is cached stays so */
    for (unsigned i = 0; i < array_count(blocks); i++) {
        mw_free(blocks[i]);
    }
    CHECK(mw_malloc(16 * page) == blocks[0]);
    CHECK_EQ(pagemap_find(blocks[0])->shrunk, SHRUNK_ROOMY);
    mw_free(blocks[0]);
    stack_flush(heap_own);
    CHECK(mw_malloc(22 * page) == blocks[0]);
    CHECK(mw_realloc(blocks[0], 16 * page) == blocks[0]);
    CHECK_EQ(mw_malloc_usable_size(blocks[0]), 16 * page);
    mw_free(blocks[0]);
    CHECK(mw_heap_is_valid());
}

/* The hit path makes blocks larger too, from the list of the next class, and notes it nowhere. */
TEST(realloc_cuts_no_block_that_came_from_the_next_list)
{
    if (MW_FENCES) {
        return;
    }
    process_init();
    size_t page = os_page_size;
    char *block = mw_malloc(20 * page);
    mw_free(block);
    stack_set_private(heap_own, true);
    CHECK(heap_own->is_private);
    CHECK(mw_malloc(17 * page) == block);
    CHECK_EQ(mw_malloc_usable_size(block), 20 * page);
    size_t sizes[] = {17 * page + 1, 18 * page, 20 * page, 17 * page};
    for (unsigned i = 0; i < array_count(sizes); i++) {
        CHECK(mw_realloc(block, sizes[i]) == block);
        CHECK_EQ(mw_malloc_usable_size(block), 20 * page);
    }
    CHECK_EQ(pagemap_find(block)->shrunk, SHRUNK_NEVER);
    CHECK(mw_realloc(block, 16 * page) == block); /* malloc would not give it for so little */
    CHECK_EQ(mw_malloc_usable_size(block), 16 * page);
    mw_free(block);
    CHECK(mw_heap_is_valid());
}

/* Above SHRINK_EIGHTH_MAX a block that would be used to a half moves, and above SHRINK_KEEP_MAX it is cut. */
TEST(realloc_keeps_large_blocks_for_more_than_half)
{
    if (MW_FENCES) {
        return;
    }
    char *block = mw_malloc(2 * SHRINK_EIGHTH_MAX);
    heap_own->shrink_pages_to_keep = UINT32_MAX;
    CHECK(mw_realloc(block, SHRINK_EIGHTH_MAX + 1) == block);
    CHECK_EQ(mw_malloc_usable_size(block), 2 * SHRINK_EIGHTH_MAX);
    char *half = mw_realloc(block, SHRINK_EIGHTH_MAX);
    CHECK(half != block);
    CHECK_EQ(mw_malloc_usable_size(half), SHRINK_EIGHTH_MAX);
    mw_free(half);
    block = mw_malloc(SHRINK_KEEP_MAX + MiB);
    CHECK(mw_realloc(block, SHRINK_KEEP_MAX) == block);
    CHECK_EQ(mw_malloc_usable_size(block), SHRINK_KEEP_MAX);
    CHECK(mw_realloc(block, SHRINK_KEEP_MAX - MiB) == block);
    CHECK_EQ(mw_malloc_usable_size(block), SHRINK_KEEP_MAX);
    mw_free(block);
    CHECK(mw_heap_is_valid());
}

/* A slot that was copied to make it smaller, and then to make it larger, says the same of slots. */
TEST(realloc_copies_no_slots_that_grow_again)
{
    enum { LARGER = 8 * KiB, SMALLER = 2 * KiB };
    if (!REALLOC_LEARNS) {
        return;
    }
    char *block = mw_malloc(LARGER);
    memset(block, 0x5a, SMALLER);
    block = mw_realloc(block, SMALLER);
    CHECK_EQ(mw_malloc_usable_size(block), SMALLER);
    CHECK_EQ(heap_own->shrinks_to_keep, 0);
    block = mw_realloc(block, LARGER);
    CHECK_EQ(heap_own->shrinks_to_keep, SHRINKS_TO_KEEP);
    for (unsigned i = 0; i < SHRINKS_TO_KEEP - 1; i++) {
        CHECK(mw_realloc(block, SMALLER) == block);
        CHECK(mw_realloc(block, LARGER) == block);
    }
    CHECK_EQ(block[SMALLER - 1], 0x5a);
    CHECK(mw_realloc(block, LARGER / 2 + 1) == block); /* as always */
    CHECK_EQ(heap_own->shrinks_to_keep, 1);
    char *eighth = mw_realloc(block, LARGER / 8);
    CHECK_EQ(mw_malloc_usable_size(eighth), LARGER / 8);
    CHECK_EQ(heap_own->shrinks_to_keep, 0);
    /* Small ones are copied, and say nothing. */
    heap_own->shrinks_to_keep = 1;
    char *small = mw_realloc(mw_malloc(SHRINK_KEEP_MIN / 2), SHRINK_KEEP_MIN / 4);
    CHECK_EQ(mw_malloc_usable_size(small), SHRINK_KEEP_MIN / 4);
    CHECK_EQ(heap_own->shrinks_to_keep, 1);
    mw_free(small);
    mw_free(eighth);
    CHECK(mw_heap_is_valid());
}

static void *slot_of_another_thread(void *size)
{
    return mw_malloc((size_t)size);
}

/* So are slots of others kept, which are realloc's slow way. */
TEST(realloc_copies_no_slots_of_others_that_grow_again)
{
    enum { LARGER = 8 * KiB, SMALLER = 2 * KiB };
    if (!REALLOC_LEARNS) {
        return;
    }
    mw_free(mw_malloc(SMALLER)); /* this thread has a heap of its own */
    pthread_t thread;
    void *block;
    CHECK_EQ(pthread_create(&thread, NULL, slot_of_another_thread, (void *)LARGER), 0);
    CHECK_EQ(pthread_join(thread, &block), 0);
    CHECK(atomic_differs(&pagemap_find(block)->owner, heap_self));
    heap_own->shrinks_to_keep = 1;
    CHECK(mw_realloc(block, SMALLER) == block);
    CHECK_EQ(heap_own->shrinks_to_keep, 0);
    char *smaller = mw_realloc(block, SMALLER);
    CHECK_EQ(mw_malloc_usable_size(smaller), SMALLER);
    mw_free(smaller);
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
    if (!REALLOC_LEARNS) {
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
    CHECK_EQ(build(64, BUILD_MIN, 16, &block), class_of(BUILD_MIN) - class_of(64));
    mw_free(block);
    CHECK(mw_heap_is_valid());
}

/* Many that are built by turns, in steps so small that the first copy tells it. */
TEST(realloc_leaves_room_for_blocks_that_are_built_by_turns)
{
    enum { BLOCKS = 10 };
    if (!REALLOC_LEARNS) {
        return;
    }
    char *blocks[BLOCKS];
    for (unsigned i = 0; i < BLOCKS; i++) {
        blocks[i] = mw_malloc(BUILD_MIN);
    }
    for (size_t size = BUILD_MIN; size <= 8 * BUILD_MIN; size += BUILD_MIN / BUILD_STEP) {
        for (unsigned i = 0; i < BLOCKS; i++) {
            size_t usable = mw_malloc_usable_size(blocks[i]);
            blocks[i] = mw_realloc(blocks[i], size);
            if (size > usable) {
                CHECK(mw_malloc_usable_size(blocks[i]) >= usable + usable / BUILD_SHARE);
            }
        }
    }
    for (unsigned i = 0; i < BLOCKS; i++) {
        CHECK_LT(mw_malloc_usable_size(blocks[i]), 12 * BUILD_MIN);
        mw_free(blocks[i]);
    }
    CHECK(mw_heap_is_valid());
}

/* A block of pages that needs no other number of them stays what it is, also while it may be kept or cut. */
TEST(realloc_within_the_pages_of_a_block_changes_nothing)
{
    enum { SIZE = 128 * KiB }; /* of pages of up to 64 KiB */
    char *block = mw_malloc(SIZE);
    size_t usable = mw_malloc_usable_size(block);
    heap_own->shrink_pages_to_keep = 1;
    uint64_t counts[LARGE_CLASSES];
    memcpy(counts, heap_own->large_counts, sizeof counts);
    CHECK(mw_realloc(block, SIZE - 16) == block);
    CHECK(mw_realloc(block, SIZE) == block);
    CHECK_EQ(mw_malloc_usable_size(block), usable);
    CHECK_EQ(heap_own->shrink_pages_to_keep, 1);
    CHECK(memcmp(counts, heap_own->large_counts, sizeof counts) == 0);
    heap_own->shrink_pages_to_keep = 0;
    block = mw_realloc(block, SIZE / 2); /* and one that needs fewer is cut */
    CHECK_EQ(mw_malloc_usable_size(block), SIZE / 2);
    mw_free(block);
    CHECK(mw_heap_is_valid());
}

/* Once may be all: it gets what it asked for, and so do two that grow by turns, a quarter each time. */
TEST(realloc_leaves_no_room_for_a_block_that_grows_once)
{
    char *first = mw_malloc(1000);
    char *second = mw_malloc(1000);
    for (size_t size = 1200; size < 8000; size += size / 4) {
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
