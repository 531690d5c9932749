/* SPDX-License-Identifier: MIT
 *
 * Call stacks are kept once.
 */
#include "unit.h"

TEST(equal_stacks_have_one_number)
{
    os_init();
    uintptr_t frames[UNWIND_MOST] = {1, 2, 3};
    uint32_t three = store_put(frames, 3);
    CHECK(three != 0);
    CHECK_EQ(store_put(frames, 3), three);
    CHECK_NE(store_put(frames, 2), three);
    frames[2] = 4;
    CHECK_NE(store_put(frames, 3), three);
    CHECK_NE(store_put(frames, 0), 0);
    CHECK_EQ(store_get(three)->count, 3);
    CHECK_EQ(store_get(three)->frames[2], 3);
    CHECK(store_get(0) == NULL);
}

enum { STORE_THREADS = 4, STACKS = 30000 };

static uint32_t numbers[STORE_THREADS][STACKS];

static void *put_all(void *argument)
{
    uint32_t *mine = argument;
    for (uintptr_t i = 0; i < STACKS; i++) {
        uintptr_t frames[20] = {i, i * 7, 5};
        mine[i] = store_put(frames, 3 + i % 17);
    }
    return NULL;
}

TEST(threads_put_at_the_same_time)
{
    os_init();
    pthread_t threads[STORE_THREADS];
    for (int i = 0; i < STORE_THREADS; i++) {
        CHECK_EQ(pthread_create(&threads[i], NULL, put_all, numbers[i]), 0);
    }
    for (int i = 0; i < STORE_THREADS; i++) {
        pthread_join(threads[i], NULL);
    }
    for (size_t i = 0; i < STACKS; i++) {
        struct call_stack *stack = store_get(numbers[0][i]);
        CHECK(stack != NULL && stack->frames[0] == i && stack->count == 3 + i % 17);
        for (int thread = 1; thread < STORE_THREADS; thread++) {
            CHECK_EQ(numbers[thread][i], numbers[0][i]);
        }
    }
    size_t count = 0;
    for (struct call_stack *at = store_newest(); at != NULL; at = at->older) {
        count++;
    }
    CHECK_EQ(count, STACKS);
}

/* Full, it says so, and what it has stays. */
TEST(the_store_has_an_end)
{
    os_init();
    uintptr_t frames[UNWIND_MOST] = {1};
    uint32_t first = store_put(frames, 1);
    atomic_set(&store.used, STORE_CHUNKS * CHUNK_UNITS - 20);
    uint32_t last = 1;
    for (uintptr_t i = 2; i < 100 && last != 0; i++) {
        frames[0] = i;
        last = store_put(frames, 1);
    }
    CHECK_EQ(last, 0);
    frames[0] = 1;
    CHECK_EQ(store_put(frames, 1), first);
}
