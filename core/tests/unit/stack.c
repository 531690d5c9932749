/* SPDX-License-Identifier: MIT
 *
 * Stacks of free pages: the block freed last comes back first, what is too much or too old goes to the
 * arenas, and anybody may rob them.
 */
#include "unit.h"

static char *malloc_pages(size_t pages)
{
    process_init(); /* for the page size */
    return mw_malloc(pages << os_page_shift);
}

static struct extent *free_block(char *block)
{
    struct extent *extent = pagemap_find(block);
    mw_free(block);
    CHECK(extent_state(extent) == EXTENT_CACHED);
    return extent;
}

TEST(page_classes_are_eight_a_doubling)
{
    for (size_t pages = 1; pages <= 2048; pages++) {
        unsigned class = page_class_of(pages);
        CHECK_LT(class, PAGE_CLASSES);
        CHECK_GE(page_class_pages(class), pages);
        CHECK_LE(page_class_pages(class) - pages, pages / 8);
        CHECK(class == 0 || page_class_pages(class - 1) < pages);
        unsigned below = page_class_below(pages);
        CHECK_LE(page_class_pages(below), pages);
        CHECK(below == class || below + 1 == class);
    }
    CHECK_EQ(page_class_of(2048), PAGE_CLASSES - 1);
}

TEST(stack_gives_back_the_block_freed_last)
{
    enum { COUNT = 5 };
    char *blocks[COUNT];
    for (size_t i = 0; i < COUNT; i++) {
        blocks[i] = malloc_pages(20);
    }
    for (size_t i = 0; i < COUNT; i++) {
        free_block(blocks[i]);
    }
    CHECK_EQ(atomic_get(&heap_own->stack_pages), COUNT * 20);
    for (size_t i = COUNT; i-- > 0;) {
        CHECK(malloc_pages(19) == blocks[i]);
    }
    CHECK_EQ(atomic_get(&heap_own->stack_pages), 0);
    CHECK(mw_heap_is_valid());
}

TEST(stack_serves_three_smaller_classes_where_much_is_cached)
{
    char *block = malloc_pages(88);
    char *others = malloc_pages(256);
    heap_own->stack_limit = SIZE_MAX; /* what they may hold of both is not what is tried */
    free_block(block);
    if (88 << os_page_shift <= (int)ROOMY_CACHED_MIN) {
        CHECK_EQ(extent_pages(pagemap_find(malloc_pages(64))), 64);
        block = malloc_pages(88);
        free_block(block);
    }
    free_block(others);
    CHECK(malloc_pages(64) == block);
    CHECK_EQ(extent_pages(pagemap_find(block)), 88);
    mw_free(block);
    CHECK_EQ(extent_pages(pagemap_find(malloc_pages(60))), 60);
}

TEST(page_classes_are_roomy_where_blocks_are_large)
{
    process_init();
    for (unsigned class = 0; class < PAGE_CLASSES; class ++) {
        size_t pages = page_class_pages(class);
        unsigned most = class < PAGE_CLASS_LISTED ? 0 : pages << os_page_shift < ROOMY_MIN ? 1 : 3;
        unsigned end = class + most < PAGE_CLASSES ? class + most : PAGE_CLASSES - 1;
        CHECK_EQ(page_class_roomy(class), end);
        CHECK_LE(page_class_pages(end), pages + pages / 2);
    }
}

TEST(stack_serves_an_alignment_that_the_block_on_top_has)
{
    enum { ALIGNMENT = 2 * 1024 * 1024 };
    char *block = mw_aligned_alloc(ALIGNMENT, 10 << os_page_shift);
    char *plain = malloc_pages(9);
    struct extent *extent = free_block(block);
    /* A block that is a little smaller, or half as large, comes from there; one that is smaller does not. */
    CHECK(mw_aligned_alloc(ALIGNMENT, 9 << os_page_shift) == block);
    free_block(block);
    CHECK(mw_aligned_alloc(ALIGNMENT, 5 << os_page_shift) == block);
    free_block(block);
    char *small = mw_aligned_alloc(ALIGNMENT, 4 << os_page_shift);
    CHECK(small != block && (uintptr_t)small % ALIGNMENT == 0);
    CHECK(extent_state(extent) == EXTENT_CACHED);
    /* A block without the alignment on top stays where it is, and as old as it was. */
    struct extent *top = free_block(plain);
    uint32_t stamp = top->slab.stamp;
    size_t pages = atomic_get(&heap_own->stack_pages);
    char *other = mw_aligned_alloc(ALIGNMENT, 9 << os_page_shift);
    CHECK(other != plain && (uintptr_t)other % ALIGNMENT == 0);
    CHECK(extent_state(top) == EXTENT_CACHED && top->slab.stamp == stamp);
    CHECK_LE(atomic_get(&heap_own->stack_pages), pages);
    CHECK(mw_heap_is_valid());
    mw_free(other);
    mw_free(small);
}

TEST(stack_has_a_limit)
{
    enum { COUNT = 64 };
    char *blocks[COUNT];
    for (size_t i = 0; i < COUNT; i++) {
        blocks[i] = malloc_pages(40 + i);
        memset(blocks[i], 1, (40 + i) << os_page_shift);
    }
    for (size_t i = 0; i < COUNT; i++) {
        mw_free(blocks[i]);
        CHECK_LE(atomic_get(&heap_own->stack_pages), heap_own->stack_limit);
    }
    CHECK_LE(heap_own->stack_limit << os_page_shift, 2 * STACK_MIN);
    CHECK(heap_own->released_ms == atomic_get(&heaps.kept_house_ms));
    CHECK(mw_heap_is_valid());
    stack_flush(heap_own);
    CHECK_EQ(atomic_get(&heap_own->stack_pages), 0);
}

/* One block of 9 to 40 pages at a time. */
static void churn(unsigned times)
{
    for (unsigned i = 0; i < times; i++) {
        mw_free(malloc_pages(9 + i * 7919 % 32));
    }
}

/* A quarter of what is in use is too little for a few blocks of mixed sizes, and an arena asked for each of them takes
 * ten times as long. */
TEST(stacks_hold_more_where_blocks_come_and_go)
{
    churn(1);
    size_t least = stack_least(heap_own);
    heap_set_until_tick(heap_own, INT32_MAX / 4); /* it does not settle meanwhile */
    churn(20000);
    CHECK_GE(stack_least(heap_own), 2 * least);
    CHECK_LE(stack_least(heap_own), STACK_LEAST_MOST >> os_page_shift);
    size_t before = heap_own->stack_fetched;
    churn(1000);
    CHECK_LE(heap_own->stack_fetched - before, 1000 * 24 / 8);
    for (unsigned doublings = heap_own->stack_doublings; doublings > 0; doublings--) {
        CHECK_EQ(heap_own->stack_doublings, doublings);
        heap_settle(heap_own, clock_stamp());
        heap_settle(heap_own, clock_stamp());
    }
    CHECK(stack_least(heap_own) == least && mw_heap_is_valid());
}

/* Blocks that are freed once, or taken once, are no reason. */
TEST(stacks_hold_no_more_for_blocks_that_do_not_come_again)
{
    enum { COUNT = 600 };
    static char *blocks[COUNT];
    for (unsigned i = 0; i < COUNT; i++) {
        blocks[i] = malloc_pages(9 + i % 32);
    }
    CHECK_EQ(heap_own->stack_doublings, 0);
    for (unsigned i = 0; i < COUNT; i++) {
        mw_free(blocks[i]);
        CHECK_EQ(heap_own->stack_doublings, 0);
    }
}

TEST(stack_can_be_robbed)
{
    struct extent *first = free_block(malloc_pages(20));
    struct extent *second = free_block(malloc_pages(33));
    stack_rob(heap_own);
    CHECK(extent_state(first) == EXTENT_DIRTY || extent_state(first) == EXTENT_UNUSED);
    CHECK(extent_state(second) == EXTENT_DIRTY || extent_state(second) == EXTENT_UNUSED);
    CHECK(atomic_get(&heap_own->robbed_pages) != 0);
    char *block = malloc_pages(20);
    free_block(block);
    stack_flush(heap_own);
    CHECK_EQ(atomic_get(&heap_own->stack_pages), 0);
    CHECK_EQ(atomic_get(&heap_own->robbed_pages), 0);
    CHECK(mw_heap_is_valid());
}

TEST(stack_lets_old_blocks_go)
{
    char *blocks[3] = {malloc_pages(20), malloc_pages(20), malloc_pages(20)};
    struct extent *old = free_block(blocks[0]);
    struct extent *young = free_block(blocks[1]);
    struct extent *younger = free_block(blocks[2]);
    uint32_t stamp = clock_stamp();
    old->slab.stamp = stamp - 1000;
    stack_trim(heap_own, stamp - 500);
    CHECK(extent_state(old) != EXTENT_CACHED);
    CHECK(extent_state(young) == EXTENT_CACHED && extent_state(younger) == EXTENT_CACHED);
    CHECK_EQ(atomic_get(&heap_own->stack_pages), 40);
    CHECK(mw_heap_is_valid());
}

/* Private stacks are left alone, and serve as others do. */
TEST(stack_that_is_private_is_not_robbed)
{
    struct extent *first = free_block(malloc_pages(20));
    stack_set_private(heap_own, true);
    CHECK(heap_own->is_private);
    struct extent *second = free_block(malloc_pages(33));
    stack_rob(heap_own);
    CHECK(extent_state(first) == EXTENT_CACHED && extent_state(second) == EXTENT_CACHED);
    CHECK(pagemap_find(malloc_pages(20)) == first);
    mw_free((void *)first->start);
    CHECK_EQ(atomic_get(&heap_own->stack_pages), 20 + page_class_pages(page_class_of(33)));
    CHECK(mw_heap_is_valid());
    stack_set_private(heap_own, false);
    stack_rob(heap_own);
    CHECK(extent_state(first) != EXTENT_CACHED && extent_state(second) != EXTENT_CACHED);
}

/* A busy thread gets private stacks, one that pauses loses them. */
TEST(stack_is_private_while_its_thread_is_busy)
{
    for (int i = 0; i < 200; i++) {
        mw_free(malloc_pages(20));
    }
    CHECK(heap_own->is_private);
    heap_set_lists(heap_own, IDLE_MS);
    CHECK(!heap_own->is_private);
}

/* At its limit a heap gives the older half away, and its stacks stay private, where in_use / STACK_SHARE may lie in
 * them: else half of all calls would find them public. */
KERNEL_TEST(stack_at_its_limit_stays_private)
{
    static char *blocks[200];
    for (size_t i = 0; i < array_count(blocks); i++) {
        blocks[i] = malloc_pages(20);
        memset(blocks[i], 1, 20 << os_page_shift);
    }
    mw_free(blocks[0]);
    stack_set_private(heap_own, true);
    heap_set_until_tick(heap_own, UNTIL_TICK_MOST);
    for (size_t i = 1; i < array_count(blocks); i++) {
        CHECK(heap_own->is_private);
        atomic_set(&heap_own->tick_ms, clock_look()); /* others may have the CPU meanwhile */
        mw_free(blocks[i]);
        if (i % 4 == 0) {
            malloc_pages(20); /* who only frees has public stacks */
        }
        CHECK_LE(atomic_get(&heap_own->stack_pages), heap_own->stack_limit);
    }
    CHECK_LE(heap_own->stack_limit, 199 * 20 / STACK_SHARE);
    CHECK(mw_heap_is_valid());
}

/* What a sleeping thread may take with it is bounded: more makes the stacks public. */
KERNEL_TEST(stack_that_holds_much_is_not_private)
{
    static char *blocks[1000];
    size_t most = STACKS_PRIVATE >> os_page_shift;
    for (size_t i = 0; i < array_count(blocks); i++) {
        blocks[i] = malloc_pages(100);
        memset(blocks[i], 1, 100 << os_page_shift);
    }
    for (size_t i = 0; i < array_count(blocks); i++) {
        mw_free(blocks[i]);
        if (heap_own->is_private) {
            CHECK_LE(atomic_get(&heap_own->stack_pages), 2 * most); /* see stack_set_private */
        }
    }
    CHECK(!heap_own->is_private || heap_own->stack_limit <= most);
    stack_flush(heap_own);
    size_t heaps_before = atomic_get(&heaps.in_use);
    mw_free(malloc_pages(100));
    stack_set_private(heap_own, true);
    CHECK(heap_own->is_private);
    atomic_set(&heaps.in_use, 1000 * arena_count());
    stack_set_private(heap_own, true);
    CHECK(!heap_own->is_private);
    atomic_set(&heaps.in_use, (uint32_t)heaps_before);
    CHECK(mw_heap_is_valid());
}

/* Who gives much back and takes nothing may be about to sleep; who takes as well is not. */
TEST(stack_of_who_only_frees_is_for_everybody)
{
    enum { TAKES = 300, TICK = 25 };
    static char *blocks[600];
    for (size_t i = 0; i < array_count(blocks); i++) {
        blocks[i] = malloc_pages(20);
    }
    mw_free(blocks[0]);
    heap_clears_up(heap_own); /* what it says is of the time since the call before */
    for (size_t i = 1; i < array_count(blocks); i++) {
        bool takes_as_well = i < TAKES;
        heap_set_pace(heap_own, TICK);
        mw_free(blocks[i]);
        if (takes_as_well && i % 4 == 0) {
            malloc_pages(20);
        }
        if (i % TICK == TICK - 1) {
            CHECK_EQ(heap_clears_up(heap_own), i >= TAKES + CLEARED_TICKS * TICK - 1);
        }
    }
    CHECK(!heap_clears_up(heap_own));
}

/* What overflowed to the arenas came into the stacks before. */
KERNEL_TEST(stack_that_overflows_has_grown)
{
    enum { BLOCKS = 1200, TICK = 100 };
    static char *blocks[BLOCKS];
    for (size_t i = 0; i < BLOCKS; i++) {
        blocks[i] = malloc_pages(20);
        memset(blocks[i], 1, 20 << os_page_shift);
    }
    for (size_t i = 0; i < BLOCKS; i++) {
        heap_set_pace(heap_own, TICK);
        mw_free(blocks[i]);
        if (i % TICK == TICK - 1) {
            /* The first one finds no tick before it. */
            CHECK_EQ(heap_gives_up_blocks(heap_own), i >= (1 + CLEARED_TICKS) * TICK - 1);
        }
    }
    CHECK_LE(atomic_get(&heap_own->stack_pages), BLOCKS * 20 / 2); /* it did overflow */
    CHECK(mw_heap_is_valid());
}

/* A robber and the owner at the same time: every page is in one place. */
enum { ROBBED_ROUNDS = 20000 };
static _Atomic bool done;

static void *rob(void *argument)
{
    while (!atomic_load(&done)) {
        stack_rob(argument);
    }
    return NULL;
}

TEST(stack_is_robbed_while_it_is_used)
{
    mw_free(malloc_pages(20));
    pthread_t robber;
    CHECK_EQ(pthread_create(&robber, NULL, rob, heap_own), 0);
    char *blocks[8] = {0};
    uint64_t random = 3;
    for (int i = 0; i < ROBBED_ROUNDS; i++) {
        char **at = &blocks[test_random(&random) % 8];
        if (*at != NULL) {
            CHECK_EQ((unsigned char)**at, (unsigned char)((uintptr_t)*at >> 12));
            mw_free(*at);
        }
        if (i % 32 == 0) {
            stack_set_private(heap_own, i % 64 == 0);
        }
        *at = malloc_pages(9 + test_random(&random) % 8);
        **at = (char)((uintptr_t)*at >> 12);
    }
    atomic_store(&done, true);
    pthread_join(robber, NULL);
    for (size_t i = 0; i < 8; i++) {
        mw_free(blocks[i]);
    }
    stack_flush(heap_own);
    CHECK_EQ(atomic_get(&heap_own->stack_pages), 0);
    CHECK_EQ(usage_now().large_bytes, 0);
    CHECK(mw_heap_is_valid());
}

/* Sizes that can not be had are refused before anything that is free is given away. */
TEST(stack_keeps_its_blocks_when_the_impossible_is_asked_for)
{
    struct extent *extent = free_block(malloc_pages(20));
    for (unsigned bit = 48; bit <= 63; bit++) {
        size_t size = (size_t)1 << bit;
        CHECK(mw_malloc(size) == NULL);
        CHECK(mw_malloc(size + (20 << os_page_shift)) == NULL);
    }
    CHECK(extent_state(extent) == EXTENT_CACHED);
}

/* A block above the limit stays alone: a program that frees and allocates it again and again does not
 * go to the arena each time. */
TEST(stack_keeps_the_block_freed_last_whatever_its_size)
{
    char *large = malloc_pages(LARGE_MAX >> os_page_shift);
    memset(large, 1, LARGE_MAX);
    struct extent *extent = free_block(large);
    CHECK_LE(heap_own->stack_limit, LARGE_MAX >> os_page_shift);
    CHECK(malloc_pages(LARGE_MAX >> os_page_shift) == large);
    free_block(large);
    CHECK(extent_state(extent) == EXTENT_CACHED);
}

static void free_block_on_its_way(void)
{
    char *block = malloc_pages(20);
    struct extent *extent = free_block(block);
    CHECK(stack_take_all(heap_own, page_class_of(20)) == extent);
    mw_free(block);
}

TEST(stack_finds_a_double_free_of_a_block_on_its_way)
{
    check_aborts(free_block_on_its_way, "double free");
}

static void *burst_elsewhere(void *argument)
{
    (void)argument;
    static char *blocks[400];
    for (size_t i = 0; i < array_count(blocks); i++) {
        blocks[i] = memset(mw_malloc(100 * KiB), 1, 100 * KiB);
    }
    for (size_t i = 0; i < array_count(blocks); i++) {
        mw_free(blocks[i]);
    }
    return NULL;
}

/* What a thread of another arena has freed serves before the process grows. */
TEST(stack_takes_free_pages_of_any_arena)
{
    mw_free(malloc_pages(20));
    pthread_t thread;
    CHECK_EQ(pthread_create(&thread, NULL, burst_elsewhere, NULL), 0);
    pthread_join(thread, NULL);
    size_t before = 0;
    size_t after = 0;
    for (unsigned i = 0; i < arena_count(); i++) {
        before += arena_at(i)->region_bytes;
    }
    burst_elsewhere(NULL);
    for (unsigned i = 0; i < arena_count(); i++) {
        after += arena_at(i)->region_bytes;
    }
    CHECK_LE(after, before + 4 * MiB);
    CHECK(mw_heap_is_valid());
}

/* Of pages of slabs a heap keeps as many as it has taken, whatever was asked for. */
TEST(stack_keeps_all_pages_that_a_slab_was_given)
{
    mw_free(malloc_pages(22));
    heap_own->slab_pages_due = 0;
    struct extent *larger = heap_take_pages(heap_own, 19); /* of the stack: one class more */
    struct extent *rounded = heap_take_pages(heap_own, 17);
    CHECK_EQ(extent_pages(larger), 22);
    CHECK_EQ(extent_pages(rounded), 18);
    CHECK_EQ(heap_own->slab_pages_due, 22 + 18);
    heap_put_slab_pages(heap_own, larger);
    heap_put_slab_pages(heap_own, rounded);
    CHECK_EQ(heap_own->slab_pages_due, 0);
    CHECK_EQ(atomic_get(&heap_own->stack_pages), 22 + 18);
    CHECK(mw_heap_is_valid());
}

static void *left_blocks[4000];

static void *leave_blocks(void *argument)
{
    (void)argument;
    for (size_t i = 0; i < array_count(left_blocks); i++) {
        left_blocks[i] = mw_malloc(64);
    }
    return NULL;
}

/* A thread that empties slabs of others has no use for their pages: these go where the others find them. */
TEST(stack_keeps_no_slabs_of_others)
{
    mw_free(malloc_pages(20));
    stack_flush(heap_own);
    pthread_t thread;
    CHECK_EQ(pthread_create(&thread, NULL, leave_blocks, NULL), 0);
    pthread_join(thread, NULL);
    heap_own->slab_pages_due = 1;
    for (size_t i = 0; i < array_count(left_blocks); i++) {
        mw_free(left_blocks[i]);
    }
    delay_empty(heap_own);
    heap_flush_outboxes(heap_own);
    CHECK_LE(atomic_get(&heap_own->stack_pages), 1);
    CHECK(mw_heap_is_valid());

    leave_blocks(NULL);
    for (size_t i = 0; i < array_count(left_blocks); i++) {
        mw_free(left_blocks[i]);
    }
    delay_empty(heap_own);
    CHECK_GE(atomic_get(&heap_own->stack_pages), 2);
}

TEST(stack_list_is_no_longer_than_can_be_counted)
{
    static struct extent *extents[LISTED_MOST + 20];
    size_t pages = page_class_pages(PAGE_CLASS_LISTED);
    unsigned list = block_class_of(PAGE_CLASS_LISTED);
    mw_free(malloc_pages(pages));
    stack_set_private(heap_own, true);
    CHECK(stack_is_listed(heap_own, PAGE_CLASS_LISTED));
    for (size_t i = 0; i < array_count(extents); i++) {
        extents[i] = heap_take_pages(heap_own, pages);
    }
    heap_own->stack_limit = SIZE_MAX;
    for (size_t i = 0; i < array_count(extents); i++) {
        atomic_set(&extents[i]->state,
                   EXTENT_CACHED); /* heap_put_pages would look at all each time */
        stack_push(heap_own, PAGE_CLASS_LISTED, extents[i]);
    }
    CHECK_EQ(magazine_count(heap_own, list), LISTED_MOST);
    CHECK(mw_heap_is_valid());
    for (size_t i = 0; i < array_count(extents); i++) {
        CHECK(heap_take_pages(heap_own, pages) != NULL);
    }
    CHECK_EQ(magazine_count(heap_own, list), 0);
    CHECK_EQ(atomic_get(&heap_own->stack_pages), 0);

    stack_set_private(heap_own, false); /* a long chain comes into the list at once */
    for (size_t i = 0; i < array_count(extents); i++) {
        heap_put_pages(heap_own, extents[i]);
    }
    stack_make_private(heap_own);
    CHECK_EQ(magazine_count(heap_own, list), LISTED_MOST);
    CHECK(mw_heap_is_valid());
}

/* Huge blocks come and go without a slot being handed out: time passes all the same. */
TEST(stack_huge_blocks_count_for_the_clock)
{
    mw_free(malloc_pages(20));
    heap_own->list_max = LIST_MAX_WAITING;
    heap_own->until_tick = 5;
    mw_free(mw_malloc(12 * MiB));
    mw_free(mw_malloc(12 * MiB));
    CHECK_LE(heap_own->until_tick, 3);
}
