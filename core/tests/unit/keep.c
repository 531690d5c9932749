/* SPDX-License-Identifier: MIT
 *
 * Small slots of other heaps' slabs that a heap keeps for its next requests: only where threads are many, or go on
 * exchanging blocks, so many and no more, and none of them is lost.
 */
#include "unit.h"

enum { KEPT_SIZE = 200, KEPT_BLOCKS = 1000, THREADS_MAX = KEEPING_HEAPS * ARENAS_MAX };

static char *kept_blocks[KEPT_BLOCKS];
static pthread_barrier_t barrier;

/* The first of them allocates the blocks. */
static void *stay(void *is_first)
{
    if (is_first != NULL) {
        for (size_t i = 0; i < KEPT_BLOCKS; i++) {
            kept_blocks[i] = mw_malloc(KEPT_SIZE);
            memset(kept_blocks[i], (int)i, KEPT_SIZE);
        }
    } else {
        mw_free(mw_malloc(KEPT_SIZE));
    }
    pthread_barrier_wait(&barrier);
    pthread_barrier_wait(&barrier);
    return NULL;
}

static pthread_t threads[THREADS_MAX];

static void begin_threads(unsigned count)
{
    CHECK_LE(count, THREADS_MAX);
    CHECK_EQ(pthread_barrier_init(&barrier, NULL, count + 1), 0);
    for (unsigned i = 0; i < count; i++) {
        CHECK_EQ(pthread_create(&threads[i], NULL, stay, i == 0 ? &barrier : NULL), 0);
    }
    pthread_barrier_wait(&barrier);
}

static void end_threads(unsigned count)
{
    pthread_barrier_wait(&barrier);
    for (unsigned i = 0; i < count; i++) {
        CHECK_EQ(pthread_join(threads[i], NULL), 0);
    }
    CHECK_EQ(pthread_barrier_destroy(&barrier), 0);
}

/* Enough for slots of others to be kept, however many arenas there will be. */
static unsigned many(void)
{
    return KEEPING_HEAPS * (unsigned)size_min((size_t)sysconf(_SC_NPROCESSORS_CONF), ARENAS_MAX);
}

static unsigned class(void)
{
    return class_of(KEPT_SIZE + CANARY_BYTES);
}

/* The thread's list is filled, and no tick is due for some time. */
static void use_class(void)
{
    mw_free(mw_malloc(KEPT_SIZE));
    heap_set_until_tick(heap_own, KEPT_BLOCKS);
}

/* Whether the block's slab has another thread as its owner: a full one has none. */
static bool is_of_other(const char *block)
{
    struct heap *owner = atomic_get(&pagemap_find(block)->owner);
    return owner != NULL && owner < OWNER_GUARDED && owner != heap_own;
}

/* Frees the blocks of such slabs, so many at most, and returns how many there were. */
static size_t free_some_of_others(size_t most)
{
    size_t count = 0;
    for (size_t i = 0; i < KEPT_BLOCKS && count < most; i++) {
        if (is_of_other(kept_blocks[i])) {
            mw_free(kept_blocks[i]);
            kept_blocks[i] = NULL;
            count++;
        }
    }
    return count;
}

static size_t free_those_of_others(void)
{
    return free_some_of_others(KEPT_BLOCKS);
}

static uint32_t in_use;

/* One other thread, and the class is in use. On one CPU two heaps would be many. */
static void begin_with_one(void)
{
    begin_threads(1);
    in_use = atomic_get(&heaps.in_use);
    atomic_set(&heaps.in_use, 1);
    use_class();
}

static void end_with_one(void)
{
    atomic_set(&heaps.in_use, in_use);
    end_threads(1);
}

static void free_rest(void)
{
    for (size_t i = 0; i < KEPT_BLOCKS; i++) {
        mw_free(kept_blocks[i]);
    }
    mw_collect(true);
    CHECK_EQ(usage_now().slab_used_bytes, 0);
}

static char *last(void)
{
    CHECK(is_of_other(kept_blocks[KEPT_BLOCKS - 1]));
    return kept_blocks[KEPT_BLOCKS - 1];
}

TEST(keep_the_slot_of_another_thread_freed_last)
{
    char *own = mw_malloc(KEPT_SIZE);
    begin_threads(many());
    use_class();
    char *freed = last();
    mw_free(freed);
    CHECK(heap_own->free[class()] == (struct slot *)freed);
    kept_blocks[KEPT_BLOCKS - 1] = mw_malloc(KEPT_SIZE);
    CHECK(kept_blocks[KEPT_BLOCKS - 1] == freed);
    CHECK(mw_heap_is_valid());
    CHECK_EQ(heap_own->counts[class()].sent, 1);
    end_threads(many());
    mw_free(own);
    free_rest();
}

TEST(keep_no_more_than_the_list_has_room_for)
{
    char *own = mw_malloc(KEPT_SIZE);
    begin_threads(many());
    use_class();
    size_t freed = free_those_of_others();
    uint64_t kept = heap_own->puts[class()];
    CHECK_GE(kept, 1);
    CHECK_LE(kept, list_most(heap_own, class()));
    CHECK_GE(freed, kept + 1);
    CHECK(mw_heap_is_valid());
    heap_flush_outboxes(heap_own);
    CHECK_EQ(heap_own->counts[class()].sent, freed);

    /* What is kept goes home with the list, and nothing is kept before there is a new one. */
    heap_return_lists(heap_own);
    CHECK(heap_own->free[class()] == NULL);
    CHECK_EQ(heap_own->rooms[class()], 0);
    end_threads(many());
    mw_free(own);
    free_rest();
}

TEST(keep_nothing_of_a_class_that_the_thread_does_not_allocate)
{
    char *own = mw_malloc(2 * KEPT_SIZE);
    begin_threads(many());
    CHECK_EQ(heap_own->rooms[class()], 0);
    heap_set_until_tick(heap_own, KEPT_BLOCKS);
    CHECK_GE(free_those_of_others(), 1);
    CHECK_EQ(heap_own->puts[class()], 0);
    CHECK(heap_own->free[class()] == NULL);
    end_threads(many());
    mw_free(own);
    free_rest();
}

TEST(keep_nothing_of_what_another_thread_left)
{
    char *own = mw_malloc(KEPT_SIZE);
    begin_with_one();
    CHECK_EQ(free_some_of_others(SENT_MANY - 1), SENT_MANY - 1);
    CHECK_EQ(heap_own->puts[class()], 0);
    end_with_one();
    mw_free(own);
    free_rest();
}

TEST(keep_what_threads_go_on_exchanging)
{
    char *own = mw_malloc(KEPT_SIZE);
    begin_with_one();
    CHECK_GE(free_those_of_others(), SENT_MANY + SENT_MANY / 2);
    CHECK_GE(heap_own->puts[class()], 1);
    CHECK(mw_heap_is_valid());

    /* What is kept does not tell what would go home: that is looked at anew. */
    heap_settle(heap_own, 0);
    CHECK_EQ(heap_own->sent_home, 0);
    CHECK(!heap_keeps_of_heaps(heap_own, class()));
    end_with_one();
    mw_free(own);
    free_rest();
}

TEST(keep_nothing_where_few_of_all_frees_go_home)
{
    struct heap heap = {.until_tick = 1};
    for (unsigned ticks = 0; ticks < 100; ticks++) {
        heap.sent_home += SENT_MANY / 2;
        heap_expect_sent(&heap, SENT_SHARE * SENT_MANY / 2);
        CHECK_EQ(heap.sent_home, 0);
    }
    heap.sent_home = SENT_MANY;
    heap_expect_sent(&heap, SENT_SHARE * SENT_MANY);
    CHECK_EQ(heap.sent_home, SENT_MANY); /* who keeps sends nothing */
}

/* The put after the next `puts` is a candidate, of the class's own chance. */
static void set_candidate(int32_t puts)
{
    heap_own->candidate.thinning = 0;
    heap_own->candidate.points = heap_points(heap_own, class(), 0);
    heap_own->until_tick = puts;
    heap_own->tick_rest = KEPT_BLOCKS;
}

static bool next_is_sample(void)
{
    return extent_is_sampled(pagemap_find(mw_malloc(KEPT_SIZE)));
}

static uint32_t list_length_now(void)
{
    uint32_t length = 0;
    for (struct slot *slot = heap_own->free[class()]; slot != NULL; slot = slot_next(slot)) {
        length++;
    }
    return length;
}

TEST(keep_while_samples_are_taken)
{
    char *own = mw_malloc(KEPT_SIZE);
    begin_threads(many());
    profile_set_active(true);
    heap_follow_profile(heap_own);
    CHECK(heap_is_sampling(heap_own));
    use_class();
    char *kept = last();
    set_candidate(1);
    mw_free(kept);
    CHECK(heap_own->free[class()] == (struct slot *)kept);

    /* With one whose turn is a sample the list goes home, and the next call is that sample. */
    char *marked = kept_blocks[KEPT_BLOCKS - 2];
    CHECK(is_of_other(marked));
    uint32_t others = list_length_now();
    heap_own->sample_known |= (uint64_t)1 << class();
    heap_own->sample_thinning[class()] = 0;
    heap_set_until_sample(heap_own, class(), 1000);
    mw_free(marked);
    CHECK(heap_own->free[class()] == NULL);
    CHECK(next_is_sample());
    CHECK_EQ(heap_until_sample(heap_own, class()),
             others + 1000); /* what the others had drawn holds */
    CHECK(!next_is_sample());

    /* What is kept meanwhile has its turn before. */
    use_class();
    set_candidate(0);
    mw_free(kept_blocks[KEPT_BLOCKS - 3]);
    CHECK(heap_own->free[class()] == NULL);
    mw_free(kept_blocks[KEPT_BLOCKS - 4]);
    CHECK(heap_own->free[class()] == (struct slot *)kept_blocks[KEPT_BLOCKS - 4]);
    CHECK(!next_is_sample());
    CHECK(next_is_sample());
    CHECK(mw_heap_is_valid());
    profile_set_active(false);
    end_threads(many());
    mw_free(own);
}

TEST(keep_what_a_list_that_goes_home_had_drawn)
{
    char *own = mw_malloc(KEPT_SIZE);
    uint32_t before = heap_own->sample_at[class()];
    heap_return_lists(heap_own);
    CHECK_EQ(heap_own->sample_at[class()], before); /* no samples are taken */
    profile_set_active(true);
    heap_follow_profile(heap_own);
    use_class();
    uint32_t listed = list_length_now();
    uint32_t behind = heap_until_sample(heap_own, class());
    CHECK_GE(listed, 1);
    heap_return_lists(heap_own);
    CHECK_EQ(heap_until_sample(heap_own, class()), behind + listed);
    CHECK(mw_heap_is_valid());
    profile_set_active(false);
    mw_free(own);
}

static void free_kept_twice(void)
{
    use_class();
    mw_free(last());
    mw_free(last());
}

TEST(keep_tells_a_second_free)
{
    CHECK(mw_malloc(KEPT_SIZE) != NULL);
    begin_threads(many());
    check_aborts(free_kept_twice, "free");
    end_threads(many());
}
