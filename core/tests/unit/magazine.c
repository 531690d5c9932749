/* SPDX-License-Identifier: MIT
 *
 * Medium slots: magazines hold a few, the depot has the slabs, and nothing is lost between them.
 */
#include "unit.h"

enum { MEDIUM_SIZE = 4 * KiB, MEDIUM_BLOCKS = 400 };

static char *medium_blocks[MEDIUM_BLOCKS];

static void fill_medium(size_t size)
{
    for (size_t i = 0; i < MEDIUM_BLOCKS; i++) {
        medium_blocks[i] = mw_malloc(size);
        memset(medium_blocks[i], (int)i, size);
    }
}

static void release_medium(void)
{
    for (size_t i = 0; i < MEDIUM_BLOCKS; i++) {
        mw_free(medium_blocks[i]);
        medium_blocks[i] = NULL;
    }
}

static struct magazine *magazine(void)
{
    return heap_magazine(heap_own, class_of(MEDIUM_SIZE + CANARY_BYTES));
}

static int16_t magazine_limit(void)
{
    return *heap_limit(heap_own, class_of(MEDIUM_SIZE + CANARY_BYTES));
}

static uint32_t magazine_length(void)
{
    return magazine_count(heap_own, class_of(MEDIUM_SIZE + CANARY_BYTES));
}

TEST(magazine_gives_back_the_slot_freed_last)
{
    fill_medium(MEDIUM_SIZE);
    CHECK(slab_is_of_depot(pagemap_find(medium_blocks[0])));
    char *freed = medium_blocks[0];
    mw_free(freed);
    CHECK(heap_own->free[class_of(MEDIUM_SIZE + CANARY_BYTES)] == (struct slot *)freed);
    medium_blocks[0] = mw_malloc(MEDIUM_SIZE);
    CHECK(medium_blocks[0] == freed);
    release_medium();
    CHECK(mw_heap_is_valid());
}

TEST(magazine_holds_few_slots)
{
    fill_medium(MEDIUM_SIZE);
    int16_t limit = magazine_limit();
    for (size_t i = 0; i < MEDIUM_BLOCKS / 2; i++) {
        mw_free(medium_blocks[i]);
        medium_blocks[i] = NULL;
        CHECK_LE(magazine_length(), magazine_limit());
    }
    CHECK_GE(magazine_limit(), limit);
    CHECK_LE(magazine_limit() * MEDIUM_SIZE, MAGAZINE_BYTES);
    CHECK(mw_heap_is_valid());
    release_medium();
    CHECK_EQ(usage_now().slab_used_bytes, 0);
}

/* A thread that needs a few slots once does not take more than these. */
TEST(magazine_begins_small)
{
    char *first = mw_malloc(MEDIUM_SIZE);
    CHECK_LE(magazine_length(), 1);
    mw_free(first);
    CHECK_LE(magazine_length(), 2);
}

TEST(magazine_gives_everything_back)
{
    for (int round = 0; round < 2; round++) {
        fill_medium(MEDIUM_SIZE);
        release_medium();
        mw_collect(true);
        CHECK(heap_own->free[class_of(MEDIUM_SIZE + CANARY_BYTES)] == NULL);
        CHECK_EQ(magazine_length(), 0);
        CHECK_EQ(usage_now().slab_bytes, 0);
        CHECK(mw_heap_is_valid());
    }
}

static uint32_t slots_in_magazines(void)
{
    uint32_t count = 0;
    for (unsigned class = SMALL_CLASSES; class < CLASSES; class ++) {
        count += magazine_count(heap_own, class);
    }
    return count;
}

/* Who frees much and takes nothing may be about to sleep: what its magazines hold then would keep whole slabs. */
TEST(magazines_of_who_only_frees_are_empty)
{
    static void *blocks[8 * LOOK_AFTER];
    for (size_t i = 0; i < array_count(blocks); i++) {
        blocks[i] = mw_malloc(2 * KiB + i % 14 * KiB);
    }
    heap_own->list_max = LIST_MAX_BUSY;
    for (size_t i = 0; i < array_count(blocks); i++) {
        mw_free(blocks[i]);
        if (i > 3 * LOOK_AFTER) {
            CHECK_LE(slots_in_magazines(), LIST_MAX_WAITING);
        }
    }
    CHECK(mw_heap_is_valid());
}

static void *blocks_of_request[2 * LOOK_AFTER];

/* Without a pause, although others may have the CPU meanwhile. */
static void request(size_t count)
{
    for (size_t i = 0; i < count; i++) {
        atomic_set(&heap_own->tick_ms, clock_look());
        blocks_of_request[i] = mw_malloc(2 * KiB + i % 14 * KiB);
    }
    for (size_t i = 0; i < count; i++) {
        atomic_set(&heap_own->tick_ms, clock_look());
        mw_free(blocks_of_request[i]);
    }
}

/* Those of a program that frees what it took for one request after the other are not. */
TEST(magazines_are_kept_between_requests)
{
    mw_free(mw_malloc(1));
    for (int i = 0; i < 20; i++) {
        request(LOOK_AFTER / 2);
        CHECK(i < 2 || slots_in_magazines() > LIST_MAX_WAITING);
    }
    CHECK(mw_heap_is_valid());
}

/* Nor those of larger requests, once they are known; and a pause lets them be forgotten. */
TEST(magazines_are_kept_between_large_requests)
{
    enum { REQUESTS = 60 };
    mw_free(mw_malloc(1));
    unsigned cleared = 0;
    for (int i = 0; i < REQUESTS; i++) {
        request(3 * LOOK_AFTER / 2);
        cleared += slots_in_magazines() <= LIST_MAX_WAITING;
    }
    CHECK(cleared > 0 &&
          cleared <= REQUESTS / 3); /* twice, and after a pause that an emulator makes */
    atomic_set(&heap_own->tick_ms, clock_look() - IDLE_MS);
    heap_set_until_tick(heap_own, -1);
    heap_tick(heap_own);
    CHECK_EQ(heap_own->given_up_doublings, 0);
    CHECK(mw_heap_is_valid());
}

/* Nor that of who frees a hundred blocks of one size and takes as many anew: it grows as long as it may. */
TEST(magazine_grows_between_batches)
{
    enum { BATCH = 100, BATCHES = 50 };
    mw_free(mw_malloc(1));
    uint64_t fills = 0;
    for (int batch = 0; batch < BATCHES; batch++) {
        fills = heap_own->counts[class_of(MEDIUM_SIZE + CANARY_BYTES)].fills;
        for (size_t i = 0; i < BATCH; i++) {
            atomic_set(&heap_own->tick_ms, clock_look());
            medium_blocks[i] = mw_malloc(MEDIUM_SIZE);
        }
        for (size_t i = 0; i < BATCH; i++) {
            atomic_set(&heap_own->tick_ms, clock_look());
            mw_free(medium_blocks[i]);
        }
    }
    CHECK_EQ(magazine_limit(), magazine_most(class_of(MEDIUM_SIZE + CANARY_BYTES)));
    CHECK_LE(heap_own->counts[class_of(MEDIUM_SIZE + CANARY_BYTES)].fills - fills, 4);
    CHECK(mw_heap_is_valid());
}

static void free_slot_twice(void)
{
    fill_medium(MEDIUM_SIZE);
    mw_free(medium_blocks[0]);
    mw_free(medium_blocks[0]);
}

/* Where threads are many, one that only frees keeps nothing, and works on when it allocates again. */
TEST(magazine_of_a_crowd_empties_itself)
{
    fill_medium(MEDIUM_SIZE);
    uint32_t in_use = atomic_get(&heaps.in_use);
    atomic_set(&heaps.in_use, CROWD_HEAPS * arena_count());
    CHECK(heap_is_of_crowd(heap_own));
    for (size_t i = 0; i < MEDIUM_BLOCKS; i++) {
        struct extent *extent = pagemap_find(medium_blocks[i]);
        mw_free(medium_blocks[i]);
        CHECK(!extent_is_slab(extent) || magazine_length() <= (uint32_t)magazine_limit());
    }
    CHECK_EQ(magazine_limit(), 0);
    CHECK_EQ(magazine_length(), 0);
    for (size_t i = 0; i < OUTBOXES; i++) {
        CHECK(heap_own->outboxes[i].slab == NULL);
    }
    fill_medium(MEDIUM_SIZE);
    release_medium();
    CHECK(mw_heap_is_valid());
    atomic_set(&heaps.in_use, in_use);
}

/* Of few threads for each arena, one that has only begun may hold what it calls for. */
TEST(magazine_budgets_of_all_heaps_have_a_least)
{
    fill_medium(MEDIUM_SIZE);
    release_medium();
    uint32_t in_use = atomic_get(&heaps.in_use);
    for (uint32_t count = 1; count < 200; count++) {
        atomic_set(&heaps.in_use, count);
        size_t budget = magazines_budget(heap_own);
        CHECK(budget >= heap_part(heap_own, HEAP_MAGAZINES));
        CHECK(budget >= HEAPS_LEAST / count && budget >= HEAP_LEAST);
        CHECK(count < HEAPS_LEAST / HEAP_LEAST ||
              heap_part(heap_own, HEAP_MAGAZINES) > HEAP_LEAST || budget == HEAP_LEAST);
    }
    atomic_set(&heaps.in_use, in_use);
}

/* Threads that are many, and busy all the time, are no crowd: each may hold an equal part. One that pauses may not. */
TEST(magazine_of_a_steady_thread_serves_in_a_crowd)
{
    fill_medium(MEDIUM_SIZE);
    release_medium();
    uint32_t in_use = atomic_get(&heaps.in_use);
    atomic_set(&heaps.in_use, CROWD_HEAPS * arena_count());
    CHECK_EQ(heap_part(heap_own, HEAP_MAGAZINES),
             HEAP_MAGAZINES / CROWD_HEAPS / CROWD_HEAPS / CROWD_HEAPS);
    heap_own->awake_slots = 0;
    while (heap_own->awake_slots < STEADY_SLOTS) {
        CHECK(!heap_is_steady(heap_own));
        atomic_set(&heap_own->tick_ms, clock_look());
        heap_set_until_tick(heap_own, -1);
        heap_tick(heap_own);
    }
    CHECK(heap_is_steady(heap_own) && !heap_is_of_crowd(heap_own));
    CHECK_EQ(heap_part(heap_own, HEAP_MAGAZINES), HEAP_MAGAZINES / CROWD_HEAPS);
    fill_medium(MEDIUM_SIZE);
    release_medium();
    CHECK(magazine_limit() > 0);
    atomic_set(&heap_own->tick_ms, clock_look() - IDLE_MS);
    heap_set_until_tick(heap_own, -1);
    heap_tick(heap_own);
    CHECK(!heap_is_steady(heap_own) && heap_is_of_crowd(heap_own));
    atomic_set(&heaps.in_use, in_use);
    CHECK(mw_heap_is_valid());
}

TEST(magazine_finds_a_double_free_of_its_last_slot)
{
    check_aborts(free_slot_twice, "double free");
}

static void *warm_up(void *argument)
{
    (void)argument;
    fill_medium(MEDIUM_SIZE);
    release_medium();
    return NULL;
}

static void *free_a_few(void *argument)
{
    mw_malloc(16);
    for (size_t i = 0; i < 6; i++) {
        mw_free(((char **)argument)[i]);
    }
    return NULL;
}

/* A heap that waits for another thread holds nothing, whoever had it before. */
TEST(magazine_of_a_thread_that_ended_is_empty)
{
    char *held[6];
    for (size_t i = 0; i < 6; i++) {
        held[i] = mw_malloc(MEDIUM_SIZE);
    }
    pthread_t thread;
    CHECK_EQ(pthread_create(&thread, NULL, warm_up, NULL), 0);
    pthread_join(thread, NULL);
    CHECK_EQ(pthread_create(&thread, NULL, free_a_few, held), 0);
    pthread_join(thread, NULL);
    for (struct heap *at = atomic_get(&heaps.all); at != NULL; at = at->next) {
        if (at != heap_own) {
            CHECK(at->free[class_of(MEDIUM_SIZE + CANARY_BYTES)] == NULL);
            CHECK_EQ(magazine_count(at, class_of(MEDIUM_SIZE + CANARY_BYTES)), 0);
        }
    }
}

/* --- Depot ------------------------------------------------------------------------------------- */

static void *free_medium(void *argument)
{
    (void)argument;
    release_medium();
    return NULL;
}

TEST(depot_slabs_serve_any_thread)
{
    fill_medium(MEDIUM_SIZE);
    size_t before = usage_now().slab_bytes;
    pthread_t thread;
    CHECK_EQ(pthread_create(&thread, NULL, free_medium, NULL), 0);
    pthread_join(thread, NULL);
    CHECK_EQ(usage_now().slab_used_bytes, 0);
    fill_medium(MEDIUM_SIZE);
    CHECK_LE(usage_now().slab_bytes, before + before / 4);
    release_medium();
    CHECK(mw_heap_is_valid());
}

TEST(depot_counts_what_is_out)
{
    mw_free(mw_malloc(1));
    struct extent *extent = heap_take_pages(heap_own, 16);
    unsigned class = class_of(5000);
    depot_add(extent, class);
    uint32_t count;
    struct slot *list = depot_take(arena_of(extent), class, 3, &count);
    CHECK_EQ(count, 3);
    CHECK_EQ(slab_used(extent), 3);
    CHECK(depot_slab_is_valid(extent));
    struct slot *rest = slot_next(list);
    slot_set_next(list, NULL);
    CHECK(depot_put(list) == NULL);
    CHECK_EQ(slab_used(extent), 2);
    struct extent *empty = depot_put(rest);
    CHECK(empty == extent && !extent_is_slab(extent));
    CHECK(depot_take(arena_of(extent), class, 1, &count) == NULL);
    heap_put_pages(heap_own, extent);
    CHECK(mw_heap_is_valid());
}

/* --- Batches ----------------------------------------------------------------------------------- */

enum { BATCH_REQUEST = 5000, BATCH_PAGES = 16, BATCH_SLOTS = 6 };
enum { FEW_REQUEST = 1200, FEW_BYTES = 128 << 10, FEW_SLOTS = BATCHES_MOST + 2 };

/* A slab of the depot, of which so many slots are out, as a list. */
static struct slot *slots_of_new_slab(size_t request, size_t pages, uint32_t slots,
                                      struct extent **extent)
{
    mw_free(mw_malloc(1));
    unsigned class = class_of(request);
    *extent = heap_take_pages(heap_own, pages);
    depot_add(*extent, class);
    uint32_t count;
    struct slot *list = depot_take(arena_of(*extent), class, slots, &count);
    CHECK_EQ(count, slots);
    return list;
}

TEST(batch_is_taken_as_it_is)
{
    struct extent *extent;
    struct slot *list = slots_of_new_slab(BATCH_REQUEST, BATCH_PAGES, BATCH_SLOTS, &extent);
    struct arena *arena = arena_of(extent);
    unsigned class = class_of(BATCH_REQUEST);
    CHECK(!depot_has_batches(arena));
    CHECK(depot_put_batch(arena, class, list, BATCH_SLOTS));
    CHECK_EQ(atomic_get(&slab_pool_at(arena)->batch_bytes), BATCH_SLOTS * class_size(class));
    CHECK_EQ(slab_used(extent), BATCH_SLOTS);

    uint32_t count;
    struct slot *fourth = slot_next(slot_next(slot_next(list)));
    struct slot *fifth = slot_next(fourth);
    CHECK(depot_take(arena, class, 4, &count) == list && count == 4);
    CHECK(slot_next(fourth) == NULL);
    CHECK_EQ(atomic_get(&slab_pool_at(arena)->batch_bytes), 2 * class_size(class));
    CHECK(depot_take(arena, class, 4, &count) == fifth && count == 2);
    CHECK(!depot_has_batches(arena));
    CHECK_EQ(slab_used(extent), BATCH_SLOTS);
    slot_set_next(fourth, fifth);
    CHECK(depot_put(list) == extent);
    heap_put_pages(heap_own, extent);
    CHECK(mw_heap_is_valid());
}

TEST(batches_are_few)
{
    struct extent *extent;
    unsigned class = class_of(FEW_REQUEST);
    for (int round = 0; round < 2; round++) { /* the places come back */
        struct slot *list =
            slots_of_new_slab(FEW_REQUEST, FEW_BYTES >> os_page_shift, FEW_SLOTS, &extent);
        struct arena *arena = arena_of(extent);
        struct slot *youngest = NULL;
        for (unsigned i = 0; i < FEW_SLOTS; i++) {
            struct slot *slot = list;
            list = slot_next(slot);
            slot_set_next(slot, NULL);
            bool is_kept = depot_put_batch(arena, class, slot, 1);
            CHECK_EQ(is_kept, i < BATCHES_MOST);
            youngest = is_kept ? slot : youngest;
            if (!is_kept) {
                CHECK(depot_put(slot) == NULL);
            }
        }
        CHECK_EQ(slab_used(extent), BATCHES_MOST);
        uint32_t count;
        CHECK(depot_take(arena, class, 1, &count) == youngest && count == 1);
        CHECK(depot_put(youngest) == NULL);
        /* One of another class would be too much in all. */
        CHECK(!depot_put_batch(arena, class_of(SLOT_REQUEST_MAX), youngest + 1,
                               BATCHES_TOTAL / SLOT_MAX));
        trays_empty();
        CHECK(!depot_has_batches(arena) && !extent_is_slab(extent));
        CHECK(mw_heap_is_valid());
    }
}

/* What the statistics say that the program holds. */
static uint64_t slots_held(unsigned class)
{
    struct stats *stats = stats_open();
    uint64_t held = 0;
    for (unsigned i = 0; i < stats->arena_count; i++) {
        struct stats_class *of_class = &stats->arenas[i].classes[class];
        held += of_class->slots_out - of_class->slots_cached;
    }
    stats_close(stats);
    return held;
}

/* Frees blocks, of which there are enough, until the magazine was full once. Returns how many. */
static size_t overflow_magazine(void)
{
    trays_empty();
    heap_own->list_max = LIST_MAX_WAITING;
    heap_set_until_tick(heap_own, INT16_MAX);
    uint16_t before = 0;
    size_t freed = 0;
    while (magazine_length() >= before) {
        before = magazine_length();
        mw_free(medium_blocks[freed]);
        medium_blocks[freed++] = NULL;
    }
    return freed;
}

TEST(what_a_full_magazine_gives_up_fills_the_next_empty_one)
{
    unsigned class = class_of(MEDIUM_SIZE + CANARY_BYTES);
    fill_medium(MEDIUM_SIZE);
    size_t freed = overflow_magazine();
    struct arena *arena = heap_own->arena;
    CHECK(depot_has_batches(arena));
    CHECK_EQ(magazine()->emptied, 0);
    CHECK_EQ(slots_held(class), MEDIUM_BLOCKS - freed);
    CHECK(depot_has_batches(arena));
    uint8_t first = atomic_get(batch_first_of(slab_pool_at(arena), class));
    struct slot *given_up = list_word_head(atomic_get(batch_at(slab_pool_at(arena), first)));
    while (heap_own->free[class] != NULL) {
        CHECK(mw_malloc(MEDIUM_SIZE) != (void *)given_up);
    }
    CHECK(mw_malloc(MEDIUM_SIZE) == (void *)given_up);
    CHECK(!depot_has_batches(arena) && mw_heap_is_valid());
}

/* Of common slabs are slots that no depot takes, and who clears up leaves nothing where nobody may come. */
TEST(some_magazines_give_no_batch)
{
    fill_medium(MEDIUM_SIZE);
    magazine()->was_filled_from_holes = true;
    overflow_magazine();
    CHECK(!depot_has_batches(heap_own->arena));
    release_medium();
    fill_medium(MEDIUM_SIZE);
    CHECK(!magazine()->was_filled_from_holes);
    heap_own->clears_up = true;
    overflow_magazine();
    CHECK(!depot_has_batches(heap_own->arena) && mw_heap_is_valid());
}

/* --- Trays ------------------------------------------------------------------------------------- */

enum { TRAY_COUNT = 5, TRAY_SIZE = 8 * KiB };

/* A thread that allocates none of them. */
static void *free_to_tray(void *slots)
{
    struct arena *arena = arena_of(pagemap_find(((void **)slots)[0]));
    mw_free(mw_malloc(16)); /* it has a heap now */
    for (unsigned i = 0; i < TRAY_COUNT; i++) {
        mw_free(((void **)slots)[i]);
        CHECK_EQ(tray_slot_bytes(arena), (i + 1) * TRAY_SIZE);
    }
    trays_empty();
    CHECK_EQ(tray_slot_bytes(arena), 0);
    return NULL;
}

/* Who reads the statistics page knows by this what is in no list and not with the program. */
TEST(tray_counts_its_bytes)
{
    void *slots[TRAY_COUNT];
    for (unsigned i = 0; i < TRAY_COUNT; i++) {
        slots[i] = mw_malloc(TRAY_SIZE);
        CHECK(slots[i] != NULL);
    }
    trays_empty();
    pthread_t thread;
    CHECK_EQ(pthread_create(&thread, NULL, free_to_tray, slots), 0);
    pthread_join(thread, NULL);
}
