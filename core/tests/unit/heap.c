/* SPDX-License-Identifier: MIT
 *
 * Slabs of a heap: they begin anew when they are empty, and nobody holds one back.
 */
#include "unit.h"

enum { SIZE = 200, SMALL_BLOCKS = 4000 };

static char *small_blocks[SMALL_BLOCKS];

static void fill_small(size_t size)
{
    for (size_t i = 0; i < SMALL_BLOCKS; i++) {
        small_blocks[i] = mw_malloc(size);
        memset(small_blocks[i], (int)i, size);
    }
}

static void release_small(void)
{
    for (size_t i = 0; i < SMALL_BLOCKS; i++) {
        mw_free(small_blocks[i]);
        small_blocks[i] = NULL;
    }
}

/* Slots of a slab that became empty and begins anew lie in order, and are all there. */
TEST(heap_empty_slabs_begin_anew)
{
    for (int round = 0; round < 20; round++) {
        fill_small(SIZE);
        for (size_t i = 0; i < SMALL_BLOCKS; i++) {
            for (size_t at = 0; at < SIZE; at++) {
                CHECK_EQ(small_blocks[i][at], (char)i);
            }
        }
        release_small();
        CHECK(mw_heap_is_valid());
    }
}

/* A thread that frees all it has and then sleeps: nothing but its first slab stays with its heap,
 * whatever the order. */
TEST(heap_that_drains_keeps_no_empty_slab)
{
    for (int order = 0; order < 2; order++) {
        fill_small(SIZE);
        for (size_t i = 0; i < SMALL_BLOCKS; i++) {
            mw_free(small_blocks[order == 0 ? i : SMALL_BLOCKS - 1 - i]);
        }
        struct bin *bin = &heap_own->bins[class_of(SIZE)];
        CHECK(list_is_empty(&bin->ready) && list_is_empty(&bin->waiting));
        CHECK(bin->current == NULL || extent_size(bin->current) <= 16 * KiB);
        CHECK_MSG(usage_now().slab_bytes <= 16 * KiB, "%zu order %d", usage_now().slab_bytes,
                  order);
        CHECK(mw_heap_is_valid());
        mw_collect(true);
    }
}

TEST(heap_collect_leaves_nothing)
{
    fill_small(SIZE);
    release_small();
    mw_collect(true);
    CHECK_EQ(usage_now().slab_bytes, 0);
    CHECK_EQ(atomic_get(&heap_own->stack_pages), 0);
}

/* Frees `count` blocks of one slab. */
static void release_of(struct extent *extent, size_t count)
{
    for (size_t i = 0; i < SMALL_BLOCKS && count > 0; i++) {
        if (small_blocks[i] != NULL && pagemap_find(small_blocks[i]) == extent) {
            mw_free(small_blocks[i]);
            small_blocks[i] = NULL;
            count--;
        }
    }
    CHECK_EQ(count, 0);
}

/* A current slab with a few free slots waits for more of them where another one is ready: it keeps its
 * owner, and its slots are not spent one by one. */
TEST(heap_sets_an_almost_full_slab_aside)
{
    fill_small(64);
    unsigned class = class_of(64);
    struct bin *bin = &heap_own->bins[class];
    struct extent *other = pagemap_find(small_blocks[SMALL_BLOCKS / 2]);
    struct extent *current = bin->current;
    static char *more[SMALL_BLOCKS];
    size_t count = 0;
    while (heap_own->free[class] != NULL || !slab_is_full(current)) {
        more[count] = mw_malloc(64);
        CHECK(pagemap_find(more[count]) == current);
        count++;
    }
    CHECK(other != current && slab_is_full(other) && bin->current == current);
    uint32_t wanted = slab_slots_wanted(current);
    CHECK(wanted > 1);

    release_of(other, slab_slots_wanted(other));
    CHECK(other->slab.place == SLAB_READY);
    release_of(current, wanted - 1);
    heap_set_until_tick(heap_own, 100);
    char *block = mw_malloc(64);
    CHECK(pagemap_find(block) == other && bin->current == other);
    CHECK(current->slab.place == SLAB_WAITING && atomic_get(&current->owner) == heap_own);
    release_of(current, 1);
    CHECK(current->slab.place == SLAB_READY);
    CHECK(mw_heap_is_valid());
    mw_free(block);
    for (size_t i = 0; i < count; i++) {
        mw_free(more[i]);
    }
    release_small();
    CHECK(mw_heap_is_valid());
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

/* The purge thread looks seldom while nothing is free, ever more seldom up to the time of the decay, and often while
 * something is: in a stack, or in an arena. */
TEST(purge_thread_rests_while_nothing_is_free)
{
    uint32_t looks = 0;
    option_set(OPTION_dirty_decay_ms, 6400);
    mw_free(mw_malloc(1));
    mw_collect(true);
    CHECK_EQ(purge_thread_pause_ms(&looks), 6400 / 4);
    char *block = mw_malloc(2 * MiB);
    memset(block, 1, 2 * MiB);
    CHECK_EQ(purge_thread_pause_ms(&looks), 6400 / 2);
    CHECK(!atomic_get(&free_news.is_awaited));
    CHECK_EQ(purge_thread_pause_ms(&looks), 6400);
    CHECK(atomic_get(&free_news.is_awaited));
    CHECK_EQ(purge_thread_pause_ms(&looks), UNTIL_NEWS);
    CHECK_EQ(purge_thread_pause_ms(&looks), UNTIL_NEWS);
    uint32_t news = atomic_get(&free_news.count);
    mw_free(block);
    CHECK_EQ(atomic_get(&free_news.count), news + 1);
    CHECK(!atomic_get(&free_news.is_awaited));
    CHECK_GE(atomic_get(&heap_own->stack_pages), 2 * MiB >> os_page_shift);
    CHECK_EQ(purge_thread_pause_ms(&looks), 6400 / DECAY_STEPS);
    stack_flush(heap_own);
    CHECK_GE(arena_at(0)->dirty.pages, 2 * MiB >> os_page_shift);
    CHECK_EQ(purge_thread_pause_ms(&looks), 6400 / DECAY_STEPS);
    arena_purge(arena_at(0), 0);
    CHECK_EQ(purge_thread_pause_ms(&looks), 6400 / 4);
    option_set(OPTION_dirty_decay_ms, -1);
    looks = 0;
    for (unsigned i = 0; i <= PURGE_THREAD_DOUBLINGS; i++) {
        CHECK_EQ(purge_thread_pause_ms(&looks), 1000);
    }
    CHECK_EQ(purge_thread_pause_ms(&looks), UNTIL_NEWS);
    option_set(OPTION_dirty_decay_ms, 0);
    looks = 0;
    CHECK_EQ(purge_thread_pause_ms(&looks), PURGE_THREAD_REST_MS);
    mw_free(mw_malloc(2 * MiB));
    CHECK_EQ(purge_thread_pause_ms(&looks), HOUSE_MS);
    option_set(OPTION_dirty_decay_ms, 10000);
}

/* Whether the thread would be woken, and would find something, by what `free_some` does. */
static void check_is_news(const char *what, void (*free_some)(void))
{
    uint32_t looks = PURGE_THREAD_DOUBLINGS;
    mw_collect(true);
    stack_flush(heap_own);
    arena_purge(arena_at(0), 0);
    CHECK_MSG(purge_thread_pause_ms(&looks) != UNTIL_NEWS, "%s", what);
    CHECK_MSG(purge_thread_pause_ms(&looks) == UNTIL_NEWS, "%s", what);
    uint32_t news = atomic_get(&free_news.count);
    free_some();
    CHECK_MSG(atomic_get(&free_news.count) != news, "%s is not told", what);
    CHECK_MSG(!house_is_empty(), "%s is not found", what);
}

static struct extent *news_pages;
static char *news_slot;

static void put_pages(void)
{
    heap_put_pages(heap_own, news_pages);
}

static void put_pages_into_tray(void)
{
    atomic_set(&news_pages->state, EXTENT_CACHED);
    tray_put_pages(news_pages);
}

static void put_pages_into_arena(void)
{
    arena_free(arena_of(news_pages), news_pages);
}

static void put_slot_into_tray(void)
{
    harden_slot_freed(pagemap_find(news_slot), news_slot);
    tray_put_slot(pagemap_find(news_slot), (struct slot *)news_slot);
}

static void put_batch(void)
{
    harden_slot_freed(pagemap_find(news_slot), news_slot);
    slot_set_next((struct slot *)news_slot, NULL);
    CHECK(depot_put_batch(arena_at(0), pagemap_find(news_slot)->slab.class,
                          (struct slot *)news_slot, 1));
}

static void open_slab_gets_slot(void)
{
    struct extent *slab = pagemap_find(news_slot);
    atomic_set(&slab->remote, atomic_get(&slab->remote) | INBOX_OPEN);
    emptied_note(slab);
}

TEST(purge_thread_is_woken_by_whatever_becomes_free)
{
    mw_free(mw_malloc(1));
    option_set(OPTION_dirty_decay_ms, 6400);
    void (*const ways[])(void) = {put_pages, put_pages_into_tray, put_pages_into_arena};
    for (unsigned i = 0; i < array_count(ways); i++) {
        news_pages = heap_take_pages(heap_own, 16);
        check_is_news("an extent", ways[i]);
    }
    news_slot = mw_malloc(4000);
    check_is_news("a slot in a tray", put_slot_into_tray);
    news_slot = mw_malloc(4000);
    check_is_news("a batch", put_batch);
    news_slot = mw_malloc(100);
    check_is_news("a slot for a thread that sleeps", open_slab_gets_slot);
}

static void *allocate_a_little(void *touched)
{
    for (size_t size = 1; size <= SMALL_MAX; size *= 2) {
        small_blocks[floor_log2(size)] = mw_malloc(size);
    }
    const char *heap = (const char *)heap_own;
    for (size_t at = SMALLEST_PAGE; at < sizeof(struct heap); at++) {
        if (heap[at] != 0) {
            *(size_t *)touched = at;
            break;
        }
    }
    return NULL;
}

/* Each thread costs one page for its heap, as long as it allocates small blocks only. */
TEST(heap_of_small_blocks_is_one_page)
{
    size_t touched = 0;
    pthread_t thread;
    CHECK_EQ(pthread_create(&thread, NULL, allocate_a_little, &touched), 0);
    CHECK_EQ(pthread_join(thread, NULL), 0);
    CHECK_MSG(touched == 0, "byte %zu", touched);
    release_small();
}
