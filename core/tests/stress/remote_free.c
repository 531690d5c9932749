/* SPDX-License-Identifier: MIT
 *
 * Blocks are freed by other threads than the one that allocated them: from producers to consumers,
 * all to all, and with the threads themselves coming and going.
 */
#include "stress.h"

enum { THREADS = 6, SLOTS = 3000, STEPS = 60000 / STRESS_DIVISOR };

static struct stress_slot slots[SLOTS];
static uint64_t seed;

static void drain(void)
{
    for (size_t i = 0; i < SLOTS; i++) {
        stress_free(&slots[i].block);
    }
}

/* Even threads only allocate, odd threads only free. */
static void *produce_or_consume(void *argument)
{
    size_t self = (size_t)(uintptr_t)argument;
    uint64_t random = stress_thread_random(seed, self);
    for (uint64_t step = 0; step < STEPS; step++) {
        struct stress_slot *slot = &slots[test_random(&random) % SLOTS];
        struct stress_block block = {0};
        if (self % 2 == 0) {
            block = stress_allocate(stress_size(&random), self << 32 | step);
        }
        struct stress_block before = stress_exchange(slot, block);
        stress_free(&before);
    }
    return NULL;
}

/* Everybody allocates into any slot and frees what was there, so nearly all frees are remote. */
static void *mesh(void *argument)
{
    size_t self = (size_t)(uintptr_t)argument;
    uint64_t random = stress_thread_random(seed, self);
    for (uint64_t step = 0; step < STEPS; step++) {
        struct stress_slot *slot = &slots[test_random(&random) % SLOTS];
        struct stress_block block = stress_allocate(stress_size(&random), self << 32 | step);
        struct stress_block before = stress_exchange(slot, block);
        if (before.bytes && step % 8 == 0) {
            pattern_check(before.bytes, before.size, before.owner);
            size_t size = stress_size(&random) + 1;
            void *moved = t_realloc(before.bytes, size);
            CHECK(moved != NULL);
            size_t kept = size < before.size ? size : before.size;
            pattern_check_moved(moved, before.bytes, before.size, before.owner, kept);
            t_free(moved);
        } else {
            stress_free(&before);
        }
    }
    return NULL;
}

static void run(const char *name, void *(*body)(void *), int short_rounds)
{
    seed = stress_seed(name);
    int64_t start = stress_now_ms();
    for (int round = 0; stress_goes_on(start, round, short_rounds); round++) {
        pthread_t threads[THREADS];
        seed += 2;
        for (size_t i = 0; i < THREADS; i++) {
            threads[i] = stress_start(body, (void *)i);
        }
        for (size_t i = 0; i < THREADS; i++) {
            stress_join(threads[i]);
        }
        CHECK(mw_heap_is_valid());
    }
    drain();
    CHECK(mw_heap_is_valid());
}

TEST(producers_and_consumers)
{
    run("producers_and_consumers", produce_or_consume, 3);
}

TEST(mesh_of_threads)
{
    run("mesh_of_threads", mesh, 3);
}

/* Larson: each thread works on its share of the blocks, then ends and hands them to a new one. */
enum { SHARE = 500, GENERATIONS = 40, LARSON_STEPS = 4000 / STRESS_DIVISOR };

static struct stress_block shares[THREADS][SHARE];

static void *larson(void *argument)
{
    struct stress_block *share = argument;
    uint64_t random =
        stress_thread_random(seed, ((uintptr_t)share - (uintptr_t)shares) / sizeof shares[0]);
    for (uint64_t step = 0; step < LARSON_STEPS; step++) {
        struct stress_block *block = &share[test_random(&random) % SHARE];
        stress_free(block);
        *block = stress_allocate(stress_size(&random) % 2000, step);
    }
    return NULL;
}

TEST(shares_pass_from_thread_to_thread)
{
    seed = stress_seed("shares_pass_from_thread_to_thread");
    int64_t start = stress_now_ms();
    size_t early = 0;
    for (int round = 0; stress_goes_on(start, round, GENERATIONS); round++) {
        pthread_t threads[THREADS];
        seed += 2;
        for (size_t i = 0; i < THREADS; i++) {
            threads[i] = stress_start(larson, shares[(i + (size_t)round) % THREADS]);
        }
        for (size_t i = 0; i < THREADS; i++) {
            stress_join(threads[i]);
        }
        if (round == GENERATIONS / 4) {
            early = stress_memory(1);
        }
    }
    CHECK_MSG(stress_memory(1) < early * 2 + (16u << 20), "%zu to %zu resident", early,
              stress_memory(1));
    for (size_t i = 0; i < THREADS; i++) {
        for (size_t k = 0; k < SHARE; k++) {
            stress_free(&shares[i][k]);
        }
    }
    CHECK(mw_heap_is_valid());
}

/* One thread only allocates, one only frees, in order: memory must not pile up between them. */
enum { RING = 4096, RING_STEPS = 1000000 / STRESS_DIVISOR };

static struct stress_slot ring[RING];
static atomic_uint_fast64_t produced, consumed;

static void *fill_ring(void *unused)
{
    uint64_t random = stress_thread_random(seed, 0);
    for (uint64_t i = 0; i < RING_STEPS; i++) {
        while (i - atomic_load(&consumed) >= RING) {
            sched_yield();
        }
        ring[i % RING].block = stress_allocate(test_random(&random) % 400, i);
        atomic_store(&produced, i + 1);
    }
    return unused;
}

TEST(one_way_traffic_does_not_pile_up)
{
    seed = stress_seed("one_way_traffic_does_not_pile_up");
    size_t before = stress_memory(1);
    pthread_t producer = stress_start(fill_ring, NULL);
    for (uint64_t i = 0; i < RING_STEPS; i++) {
        while (atomic_load(&produced) <= i) {
            sched_yield();
        }
        stress_free(&ring[i % RING].block);
        atomic_store(&consumed, i + 1);
    }
    stress_join(producer);
    CHECK_MSG(stress_memory(1) < before + (64u << 20), "%zu to %zu resident", before,
              stress_memory(1));
    CHECK(mw_heap_is_valid());
}
