/* SPDX-License-Identifier: MIT
 *
 * Threads end with live blocks, which others read, resize and free; and threads come and go by the
 * thousand without the process growing.
 */
#include "stress.h"

enum { LEFT = 700, GENERATIONS = 60 / STRESS_DIVISOR, FREERS = 4 };

static struct stress_block left[LEFT];
static uint64_t seed;

static void *leave_blocks(void *unused)
{
    uint64_t random = stress_thread_random(seed, 0);
    struct stress_block own[50];
    for (uint64_t i = 0; i < LEFT; i++) {
        struct stress_block *mine = &own[i % 50];
        if (i >= 50) {
            stress_free(mine);
        }
        *mine = stress_allocate(stress_size(&random), i);
        left[i] = stress_allocate(stress_size(&random), i | 1ull << 40);
    }
    for (size_t i = 0; i < 50; i++) {
        stress_free(&own[i]);
    }
    return unused;
}

static void *free_share(void *argument)
{
    for (size_t i = (size_t)(uintptr_t)argument; i < LEFT; i += FREERS) {
        stress_free(&left[i]);
    }
    return NULL;
}

TEST(blocks_outlive_their_thread)
{
    seed = stress_seed("blocks_outlive_their_thread");
    int64_t start = stress_now_ms();
    for (int round = 0; stress_goes_on(start, round, GENERATIONS); round++) {
        seed += 2;
        stress_join(stress_start(leave_blocks, NULL));
        pthread_t threads[FREERS];
        for (size_t i = 0; i < FREERS; i++) {
            threads[i] = stress_start(free_share, (void *)i);
        }
        for (size_t i = 0; i < FREERS; i++) {
            stress_join(threads[i]);
        }
    }
    CHECK(mw_heap_is_valid());
}

/* Each thread of the churn leaves one block behind for the next one to free. */
static struct stress_slot handed_on;

static void *short_life(void *argument)
{
    uint64_t random = stress_thread_random(seed, (size_t)(uintptr_t)argument);
    struct stress_block blocks[20];
    for (size_t i = 0; i < 20; i++) {
        blocks[i] = stress_allocate(test_random(&random) % 2000, i);
    }
    struct stress_block before = stress_exchange(&handed_on, blocks[0]);
    stress_free(&before);
    for (size_t i = 1; i < 20; i++) {
        stress_free(&blocks[i]);
    }
    return NULL;
}

TEST(threads_come_and_go)
{
    enum {
        AT_ONCE = 4,
        SHORT_THREADS = 10000 / STRESS_DIVISOR,
        EARLY = SHORT_THREADS / 5 / AT_ONCE * AT_ONCE
    };
    seed = stress_seed("threads_come_and_go");
    int64_t start = stress_now_ms();
    size_t early = 0, early_space = 0;
    for (int done = 0; stress_goes_on(start, done, SHORT_THREADS); done += AT_ONCE) {
        pthread_t threads[AT_ONCE];
        for (size_t i = 0; i < AT_ONCE; i++) {
            threads[i] = stress_start(short_life, (void *)((size_t)done + i));
        }
        for (size_t i = 0; i < AT_ONCE; i++) {
            stress_join(threads[i]);
        }
        if (done == EARLY) {
            early = stress_memory(1);
            early_space = stress_memory(0);
        }
    }
    CHECK_MSG(stress_memory(1) < early + (4u << 20), "%zu to %zu resident", early,
              stress_memory(1));
    CHECK_MSG(stress_memory(0) < early_space + (64u << 20), "%zu to %zu mapped", early_space,
              stress_memory(0));
    CHECK(mw_heap_is_valid());
}
