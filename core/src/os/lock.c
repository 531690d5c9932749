/* SPDX-License-Identifier: MIT */
#include "lock.h"

/* How often to look before asking the kernel to wait: about the length of our critical sections. */
#define LOCK_SPINS 100

#if MW_CHECK_LEVEL >= 3
/* A bit per rank that this thread holds, and how many arenas (fork holds them all). */
static THREAD_LOCAL uint32_t locks_held;
#endif

static void lock_note_taken(struct lock *lock)
{
#if MW_CHECK_LEVEL >= 3
    bool may_repeat = lock->rank >= LOCK_POOL && lock->rank <= LOCK_ARENA;
    uint32_t not_above = lock->rank + may_repeat;
    require((locks_held >> not_above) == 0);
    locks_held |= (uint32_t)1 << lock->rank;
#else
    (void)lock;
#endif
}

static void lock_note_released(struct lock *lock)
{
#if MW_CHECK_LEVEL >= 3
    locks_held &= ~((uint32_t)1 << lock->rank);
#else
    (void)lock;
#endif
}

/* The thread that holds all locks for a fork. */
static _Atomic(void *) gate_owner;

static void lock_gate_close(void)
{
    atomic_set(&gate_owner, os_thread_id());
}

static void lock_gate_open(void)
{
    atomic_set(&gate_owner, NULL);
}

ALWAYS_INLINE bool lock_gate_is_mine(void)
{
    void *owner = atomic_get(&gate_owner);
    return unlikely(owner != NULL) && owner == os_thread_id();
}

static void lock_init(struct lock *lock, enum lock_rank rank)
{
    if (MW_CHECK_LEVEL >= 3) {
        lock->rank = (uint16_t)rank;
    }
}

static bool lock_try_take(struct lock *lock)
{
    if (lock_gate_is_mine()) {
        return true;
    }
    uint32_t expected = 0;
    if (!atomic_compare_exchange_strong_explicit(&lock->state, &expected, 1, memory_order_acquire,
                                                 memory_order_relaxed)) {
        return false;
    }
    lock_note_taken(lock);
    return true;
}

static NOINLINE void lock_wait(struct lock *lock)
{
    for (int spin = 0; spin < LOCK_SPINS; spin++) {
        uint32_t expected = 0;
        if (atomic_get(&lock->state) == 0 &&
            atomic_compare_exchange_weak_explicit(&lock->state, &expected, 1, memory_order_acquire,
                                                  memory_order_relaxed)) {
            return;
        }
        cpu_relax();
    }
    while (atomic_exchange_explicit(&lock->state, 2, memory_order_acquire) != 0) {
        os_wait(&lock->state, 2, 0);
    }
}

static void lock_take(struct lock *lock)
{
    if (lock_gate_is_mine()) {
        return;
    }
    uint32_t expected = 0;
    if (unlikely(!atomic_compare_exchange_strong_explicit(
            &lock->state, &expected, 1, memory_order_acquire, memory_order_relaxed))) {
        lock_wait(lock);
    }
    lock_note_taken(lock);
}

static void lock_release(struct lock *lock)
{
    if (lock_gate_is_mine()) {
        return;
    }
    lock_note_released(lock);
    atomic_set(&lock->turns, (uint16_t)(atomic_get(&lock->turns) + 1));
    uint32_t was = atomic_exchange_explicit(&lock->state, 0, memory_order_release);
    check(was != 0);
    if (unlikely(was == 2)) {
        os_wake_one(&lock->state);
    }
}

static void lock_release_in_child(struct lock *lock)
{
    lock_note_released(lock);
    atomic_set(&lock->state, 0);
}
