/* SPDX-License-Identifier: MIT
 *
 * Common slabs: threads share the pages of their first blocks, larger blocks lie in the holes of
 * slabs of smaller ones, misuse of these is found, and nothing is left when all is freed.
 */
#include "unit.h"

enum { SMALL = 128, LARGE = 600, COUNT = 20000, THREADS = 12 };

static unsigned char *small[COUNT];
static unsigned char *large[COUNT];

/* Nine of ten small blocks are freed; the shared slabs that they leave have holes. */
static size_t make_holes(uint64_t *random)
{
    size_t kept = 0;
    for (size_t i = 0; i < COUNT; i++) {
        small[i] = mw_malloc(SMALL);
        memset(small[i], (int)(i % 251), SMALL);
    }
    for (size_t i = 0; i < COUNT; i++) {
        if (test_random(random) % 10 != 0) {
            mw_free(small[i]);
            small[i] = NULL;
        } else {
            kept++;
        }
    }
    heap_flush_outboxes(heap_own);
    return kept;
}

static bool is_filled(const unsigned char *block, int with, size_t size)
{
    for (size_t i = 0; i < size; i++) {
        if (block[i] != with) {
            return false;
        }
    }
    return true;
}

static bool is_in_hole(const void *block)
{
    struct extent *extent = pagemap_find(block);
    return extent_is_slab(extent) && slab_is_common(extent) &&
           extent->slab.slot_size < common_block_size(extent, block);
}

static size_t fill_holes(size_t count)
{
    size_t in_holes = 0;
    for (size_t i = 0; i < count; i++) {
        large[i] = mw_malloc(LARGE);
        CHECK(mw_malloc_usable_size(large[i]) >= LARGE);
        in_holes += is_in_hole(large[i]);
        memset(large[i], (int)(i % 241), LARGE);
    }
    return in_holes;
}

static void free_all(size_t count)
{
    for (size_t i = 0; i < count; i++) {
        CHECK(is_filled(large[i], (int)(i % 241), LARGE));
        mw_free(large[i]);
    }
    for (size_t i = 0; i < COUNT; i++) {
        CHECK(small[i] == NULL || is_filled(small[i], (int)(i % 251), SMALL));
        mw_free(small[i]);
    }
}

static size_t used_bytes(void)
{
    mw_collect(true);
    return usage_now().slab_used_bytes;
}

static bool there_is_no_common_slab(void)
{
    for (unsigned i = 0; i < arena_count(); i++) {
        struct slab_pool *pool = slab_pool_at(arena_at(i));
        for (unsigned class = 0; class < CLASSES; class ++) {
            if (!list_is_empty(&pool->common[COMMON_FIRST][class]) ||
                !list_is_empty(&pool->common[COMMON_HOLES][class])) {
                return false;
            }
        }
    }
    return true;
}

TEST(common_holes_take_larger_blocks)
{
    uint64_t random = 99;
    size_t before = used_bytes();
    make_holes(&random);
    size_t in_holes = fill_holes(COUNT / 20);
    CHECK_MSG(in_holes > COUNT / 40, "%zu of %d", in_holes, COUNT / 20);
    CHECK(mw_heap_is_valid());
    free_all(COUNT / 20);
    CHECK_EQ(used_bytes(), before);
    CHECK(there_is_no_common_slab());
    CHECK(mw_heap_is_valid());
}

static void *wait_for_leave(void *argument)
{
    mw_free(mw_malloc(1));
    pthread_barrier_wait(argument);
    pthread_barrier_wait(argument);
    return NULL;
}

/* While there is no other heap, slabs that are almost empty stay with this one, and frees into them are hits;
 * beyond what it may keep beside others, they take larger blocks. */
TEST(common_holes_are_made_of_slabs_of_a_heap_that_is_alone)
{
    enum { BLOCKS = 4000 };
    unsigned class = class_of(SMALL);
    mw_free(mw_malloc(1));
    struct bin *bin = &heap_own->bins[class];
    size_t before = used_bytes();
    for (size_t i = 0; i < BLOCKS; i++) {
        small[i] = mw_malloc(SMALL);
    }
    uint64_t sent = heap_own->counts[class].sent;
    uint64_t random = 102;
    for (size_t i = 0; i < BLOCKS; i++) {
        if (test_random(&random) % 10 != 0) {
            mw_free(small[i]);
            small[i] = NULL;
        }
    }
    CHECK_EQ(heap_own->counts[class].sent, sent);
    CHECK_GE(bin->ready_count, READY_MAX + 1);
    CHECK(fill_holes(COUNT / 20) > 0);
    CHECK_EQ(bin->ready_count, READY_MAX);
    CHECK(mw_heap_is_valid());

    pthread_t thread;
    pthread_barrier_t barrier;
    CHECK_EQ(pthread_barrier_init(&barrier, NULL, 2), 0);
    CHECK_EQ(pthread_create(&thread, NULL, wait_for_leave, &barrier), 0);
    pthread_barrier_wait(&barrier);
    CHECK_EQ(heaps_ready_most(), READY_MAX);
    pthread_barrier_wait(&barrier);
    pthread_join(thread, NULL);
    CHECK_EQ(heaps_ready_most(), READY_MAX_ALONE);
    for (size_t i = 0; i < COUNT / 20; i++) {
        mw_free(large[i]);
    }
    for (size_t i = 0; i < BLOCKS; i++) {
        mw_free(small[i]);
    }
    CHECK_EQ(used_bytes(), before);
}

static void *allocate_small(void *argument)
{
    (void)argument;
    for (size_t i = 0; i < COUNT; i++) {
        small[i] = mw_malloc(SMALL);
        memset(small[i], (int)(i % 251), SMALL);
    }
    return NULL;
}

/* It may own slabs of another arena, where it looks for no holes: they stay its own. */
TEST(common_holes_are_made_of_slabs_of_the_arena_of_the_heap)
{
    pthread_t thread;
    uint64_t random = 103;
    mw_free(mw_malloc(SMALL));
    CHECK_EQ(pthread_create(&thread, NULL, allocate_small, NULL), 0);
    pthread_join(thread, NULL);
    for (size_t i = 0; i < COUNT; i++) {
        if (test_random(&random) % 10 != 0) {
            mw_free(small[i]);
            small[i] = NULL;
        }
    }
    CHECK_GE(heap_own->bins[class_of(SMALL)].ready_count, READY_MAX + 1);
    fill_holes(COUNT / 2);
    for (size_t i = 0; i < COUNT; i++) {
        struct extent *extent = small[i] == NULL ? NULL : pagemap_find(small[i]);
        CHECK(extent == NULL || extent_arena(extent) == heap_own->arena->index ||
              !slab_is_common(extent));
    }
    CHECK(mw_heap_is_valid());
    free_all(COUNT / 2);
}

/* What was searched in vain is searched again once a block in it is freed. */
TEST(common_holes_are_found_again)
{
    uint64_t random = 101;
    size_t before = used_bytes();
    make_holes(&random);
    size_t in_holes = fill_holes(COUNT / 2);
    CHECK(in_holes > COUNT / 40 && in_holes < COUNT / 2); /* all that there are */
    size_t freed = 0;
    for (size_t i = 0; i < COUNT / 2; i++) {
        if (is_in_hole(large[i]) && test_random(&random) % 4 == 0) {
            mw_free(large[i]);
            large[i] = NULL;
            freed++;
        }
    }
    heap_flush_outboxes(heap_own);
    heap_return_lists(heap_own);
    size_t again = 0;
    for (size_t i = 0; i < COUNT / 2; i++) {
        if (large[i] == NULL) {
            large[i] = mw_malloc(LARGE);
            memset(large[i], (int)(i % 241), LARGE);
            again += is_in_hole(large[i]);
        }
    }
    CHECK_MSG(again >= freed / 2, "%zu of %zu", again, freed);
    CHECK(mw_heap_is_valid());
    free_all(COUNT / 2);
    CHECK_EQ(used_bytes(), before);
}

/* What is freed together lies in many slabs, so no block waits in an outbox for others; unless somebody else has the
 * pool. */
TEST(common_holes_are_free_at_once)
{
    uint64_t random = 7;
    make_holes(&random);
    size_t at = 0;
    CHECK(fill_holes(1000) > 0);
    while (!is_in_hole(large[at])) {
        at++;
    }
    struct extent *extent = pagemap_find(large[at]);
    uint32_t blocks = atomic_get(&extent->used_at_last);
    CHECK(blocks > 1);
    bool is_empty;
    lock_take(&slab_pool_of(extent)->lock);
    CHECK(!common_try_free(extent, (struct slot *)large[at], &is_empty));
    lock_release(&slab_pool_of(extent)->lock);
    CHECK_EQ(atomic_get(&extent->used_at_last), blocks);
    mw_free(large[at]);
    large[at] = NULL;
    delay_empty(heap_own);
    CHECK_EQ(atomic_get(&extent->used_at_last), blocks - 1);
    CHECK(heap_outbox(heap_own, extent)->slab != extent);
    large[at] = mw_malloc(LARGE);
    memset(large[at], (int)(at % 241), LARGE);
    free_all(1000);
}

static uint64_t class_figure(size_t size, const char *name)
{
    char text[64];
    uint64_t value = 0;
    snprintf(text, sizeof text, "all.class.%u.%s", class_size(class_of(slot_bytes(size))), name);
    CHECK_MSG(mw_stats_read(text, &value), "%s", text);
    return value;
}

struct counts {
    uint64_t allocations, frees;
};

static struct counts counts_of(size_t size)
{
    return (struct counts){class_figure(size, "allocations"), class_figure(size, "frees")};
}

static void check_counts(size_t size, struct counts before, uint64_t allocations, uint64_t frees)
{
    struct counts now = counts_of(size);
    CHECK_EQ(now.allocations - before.allocations, allocations);
    CHECK_EQ(now.frees - before.frees, frees);
}

/* Blocks in holes are counted as what they are; neither as the slots that they lie on, nor as freed while they
 * are not, whether they are in lists, with the program, in outboxes or brought back. */
TEST(common_blocks_are_counted_in_their_class)
{
    enum { BLOCKS = 1000 };
    uint64_t random = 11;
    struct counts of_small = counts_of(SMALL), of_large = counts_of(LARGE);
    size_t kept = make_holes(&random);
    check_counts(SMALL, of_small, COUNT, COUNT - kept);
    size_t in_holes = fill_holes(BLOCKS);
    CHECK(in_holes > BLOCKS / 2);
    check_counts(SMALL, of_small, COUNT, COUNT - kept);
    check_counts(LARGE, of_large, BLOCKS, 0);
    CHECK_EQ(class_figure(LARGE, "slots_out") - class_figure(LARGE, "slots_cached"), BLOCKS);
    CHECK(class_figure(LARGE, "slots") >= class_figure(LARGE, "slots_out"));
    CHECK(class_figure(SMALL, "slots") >= class_figure(SMALL, "slots_out"));
    for (size_t i = 0; i < BLOCKS; i++) {
        mw_free(large[i]);
        large[i] = NULL;
        if (i % 37 == 0) {
            check_counts(SMALL, of_small, COUNT, COUNT - kept);
            check_counts(LARGE, of_large, BLOCKS, i + 1);
        }
    }
    free_all(0);
    check_counts(SMALL, of_small, COUNT, COUNT);
    check_counts(LARGE, of_large, BLOCKS, BLOCKS);
}

TEST(common_blocks_can_be_resized)
{
    uint64_t random = 7;
    make_holes(&random);
    CHECK(fill_holes(1000) > 0);
    for (size_t i = 0; i < 1000; i++) {
        size_t size = LARGE / 4 + test_random(&random) % 3000;
        large[i] = mw_realloc(large[i], size);
        CHECK(is_filled(large[i], (int)(i % 241), size_min(size, LARGE)));
        large[i] = mw_realloc(large[i], LARGE);
        memset(large[i], (int)(i % 241), LARGE);
    }
    free_all(1000);
    CHECK(mw_heap_is_valid());
}

TEST(common_blocks_are_not_used_where_alignment_is_wanted)
{
    uint64_t random = 8;
    make_holes(&random);
    CHECK(fill_holes(1000) > 0);
    for (size_t i = 0; i < 500; i++) {
        size_t alignment = (size_t)32 << (i % 8);
        void *block = mw_aligned_alloc(alignment, 500 + i);
        CHECK_EQ((uintptr_t)block % alignment, 0);
        mw_free(block);
    }
    free_all(1000);
    CHECK(mw_heap_is_valid());
}

/* A thread that has freed the last block of a common slab looks at its descriptor once more, which may
 * be that of a slab that is just becoming common: it must never look empty. */
TEST(common_slab_that_begins_is_not_taken_for_an_empty_one)
{
    mw_free(mw_malloc(1));
    unsigned class = class_of(SMALL);
    struct extent *extent = heap_take_pages(heap_own, class_slab_pages(class, 0));
    slab_create(extent, class, heap_own);
    uint32_t count;
    struct slot *list = common_create_first(extent, heap_own, 2, &count);
    CHECK_EQ(count, 2);
    CHECK(!common_collect(extent));
    CHECK(slab_is_common(extent));
    heap_return_others(heap_own, list, pagemap_find(list)->slab.class);
    CHECK(!slab_is_common(extent));
    CHECK(there_is_no_common_slab());
}

static void *free_everything(void *argument)
{
    (void)argument;
    free_all(1000);
    return NULL;
}

TEST(common_blocks_are_freed_by_other_threads)
{
    uint64_t random = 9;
    size_t before = used_bytes();
    make_holes(&random);
    CHECK(fill_holes(1000) > 0);
    pthread_t thread;
    CHECK_EQ(pthread_create(&thread, NULL, free_everything, NULL), 0);
    pthread_join(thread, NULL);
    CHECK_EQ(used_bytes(), before);
    CHECK(there_is_no_common_slab());
}

static pthread_barrier_t all_have;
static void *first_block[THREADS];
static _Atomic unsigned got_it_again;

static void *take_first(void *argument)
{
    size_t number = (size_t)(uintptr_t)argument;
    unsigned char *blocks[4];
    for (size_t i = 0; i < array_count(blocks); i++) {
        blocks[i] = mw_malloc(200);
        memset(blocks[i], (int)number, 200);
    }
    first_block[number] = blocks[0];
    pthread_barrier_wait(&all_have);
    pthread_barrier_wait(&all_have);
    for (size_t i = 0; i < 100; i++) {
        void *freed = blocks[1];
        mw_free(freed);
        blocks[1] = mw_malloc(200);
        memset(blocks[1], (int)number, 200);
        got_it_again += blocks[1] == freed;
    }
    for (size_t i = 0; i < array_count(blocks); i++) {
        CHECK(is_filled(blocks[i], (int)number, 200));
        mw_free(blocks[i]);
    }
    return NULL;
}

TEST(common_first_blocks_of_many_threads_share_slabs)
{
    size_t before = used_bytes();
    pthread_t threads[THREADS];
    pthread_barrier_init(&all_have, NULL, THREADS + 1);
    for (size_t i = 0; i < THREADS; i++) {
        CHECK_EQ(pthread_create(&threads[i], NULL, take_first, (void *)(uintptr_t)i), 0);
    }
    pthread_barrier_wait(&all_have);
    size_t common = 0;
    for (size_t i = 0; i < THREADS; i++) {
        common += slab_is_common(pagemap_find(first_block[i]));
    }
    CHECK_MSG(common >= THREADS - 3, "%zu", common);
    CHECK(mw_heap_is_valid());
    pthread_barrier_wait(&all_have);
    for (size_t i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
    }
    CHECK_MSG(got_it_again >= THREADS * 50, "%u", got_it_again);
    CHECK_EQ(used_bytes(), before);
    CHECK(there_is_no_common_slab());
}

static unsigned char *some_block_in_hole(void)
{
    uint64_t random = 10;
    make_holes(&random);
    fill_holes(1000);
    for (size_t i = 0; i < 1000; i++) {
        if (is_in_hole(large[i])) {
            return large[i];
        }
    }
    return NULL;
}

static void free_interior(void)
{
    mw_free(some_block_in_hole() + SMALL);
}

static void free_twice(void)
{
    unsigned char *block = some_block_in_hole();
    mw_free(block);
    mw_free(block);
}

static void realloc_interior(void)
{
    mw_realloc(some_block_in_hole() + 16, 100);
}

TEST(common_misuse_is_found)
{
    check_aborts(free_interior, "bytes inside a block of 6");
    check_aborts(free_twice, "double free of");
    check_aborts(realloc_interior, "bytes inside a block of 6");
}
