/* SPDX-License-Identifier: MIT
 *
 * Locks: they exclude, and taking them out of order ends the program.
 */
#include "unit.h"

enum { THREADS = 4, ROUNDS = 100000 };

static struct lock lock = LOCK_INITIALIZER(LOCK_META);
static long counter; /* lock: lock */

static void *count_up(void *unused)
{
    for (int i = 0; i < ROUNDS; i++) {
        lock_take(&lock);
        counter++;
        lock_release(&lock);
    }
    return unused;
}

TEST(lock_excludes)
{
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++) {
        CHECK_EQ(pthread_create(&threads[i], NULL, count_up, NULL), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
    }
    CHECK_EQ(counter, (long)THREADS * ROUNDS);
}

TEST(lock_try_take_fails_on_a_held_lock)
{
    struct lock other = LOCK_INITIALIZER(LOCK_META);
    CHECK(lock_try_take(&other));
    CHECK(!lock_try_take(&other));
    lock_release(&other);
    CHECK(lock_try_take(&other));
}

static void take_out_of_order(void)
{
    static struct lock low = LOCK_INITIALIZER(LOCK_HEAPS), high = LOCK_INITIALIZER(LOCK_META);
    lock_take(&high);
    lock_take(&low);
}

static void take_two_of_a_rank(void)
{
    static struct lock once = LOCK_INITIALIZER(LOCK_META), other = LOCK_INITIALIZER(LOCK_META);
    lock_take(&once);
    lock_take(&other);
}

/* It would wait for itself. */
static void take_twice(void)
{
    static struct lock lock_of_arena = LOCK_INITIALIZER(LOCK_ARENA);
    lock_take(&lock_of_arena);
    lock_take(&lock_of_arena);
}

TEST(lock_order_is_checked)
{
    check_aborts(take_out_of_order, "lock taken out of order: heaps by a thread that holds meta");
    check_aborts(take_two_of_a_rank, "lock taken out of order: meta by a thread that holds meta");
    check_aborts(take_twice, "lock taken out of order: arena, which the thread holds");
}
