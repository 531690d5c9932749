/* SPDX-License-Identifier: MIT */
#include "lock.h"

#include "log.h"

/* How often to look before asking the kernel to wait: about the length of our critical sections. */
#define LOCK_SPINS 100

/* In a lock's state: somebody sleeps until it is free. */
#define LOCK_WAITED ((uintptr_t)1)

#if MW_LOCK_ORDER
/* A bit per rank of which this thread holds a lock. */
static THREAD_LOCAL uint32_t locks_held;

static const char *const lock_names[] = {
    "table", "direct",  "track", "process", "heaps", "shared", "tray",   "pool",    "emptied",
    "rob",   "retired", "limit", "growth",  "purge", "arena",  "tables", "guarded", "meta"};
static_assert(array_count(lock_names) == LOCK_RANKS, "a name for each rank");

/* Whether a thread may hold several locks of the rank. */
static bool rank_may_repeat(unsigned rank)
{
    return rank == LOCK_DIRECT || (rank >= LOCK_POOL && rank <= LOCK_ARENA);
}
#endif

/* Before the thread waits: if it has the lock itself, it would wait for ever. */
static void lock_check_order(struct lock *lock)
{
#if MW_LOCK_ORDER
    check(lock->rank < LOCK_RANKS);
    if (unlikely(fault_is_told_here())) {
        return; /* a handler of misuse, wherever the call was: see lock_wait_in_handler */
    }
    if (unlikely(lock_is_mine(lock))) {
        log_fatal("lock taken out of order: %s, which the thread holds", lock_names[lock->rank]);
    }
    uint32_t not_below = locks_held >> (lock->rank + rank_may_repeat(lock->rank));
    if (unlikely(not_below != 0)) {
        log_fatal("lock taken out of order: %s by a thread that holds %s", lock_names[lock->rank],
                  lock_names[floor_log2(locks_held)]);
    }
#else
    (void)lock;
#endif
}

static void lock_note_taken(struct lock *lock)
{
#if MW_LOCK_ORDER
    locks_held |= (uint32_t)1 << lock->rank;
#else
    (void)lock;
#endif
}

static void lock_note_released(struct lock *lock)
{
#if MW_LOCK_ORDER
    check(rank_may_repeat(lock->rank) || (locks_held >> lock->rank & 1) != 0);
    locks_held &= ~((uint32_t)1 << lock->rank);
#else
    (void)lock;
#endif
}

/* The thread that holds all locks for a fork. */
static _Atomic(void *) gate_owner;

static void lock_gate_close(void)
{
    check(atomic_get(&gate_owner) == NULL);
    atomic_set(&gate_owner, os_thread_id());
}

static void lock_gate_open(void)
{
    atomic_set(&gate_owner, NULL);
}

static bool lock_gate_is_mine(void)
{
    void *owner = atomic_get(&gate_owner);
    return unlikely(owner != NULL) && owner == os_thread_id();
}

/* Makes a free lock ours; `flag` is LOCK_WAITED or 0. */
ALWAYS_INLINE bool lock_grab(struct lock *lock, uintptr_t flag)
{
    uintptr_t expected = 0;
    return atomic_compare_exchange_strong_explicit(&lock->state, &expected,
                                                   (uintptr_t)os_thread_id() + flag,
                                                   memory_order_acquire, memory_order_relaxed);
}

static void lock_init(struct lock *lock, enum lock_rank rank)
{
    check(rank < LOCK_RANKS && atomic_get(&lock->state) == 0);
    if (MW_LOCK_ORDER) {
        lock->rank = (uint16_t)rank;
    }
    if (lock_gate_is_mine()) { /* a handler of fork makes an arena: let go with all the others */
        lock_grab(lock, 0);
        lock_note_taken(lock);
    }
}

static bool lock_is_mine(struct lock *lock)
{
    return (atomic_get(&lock->state) & ~LOCK_WAITED) == (uintptr_t)os_thread_id();
}

static bool lock_try_take(struct lock *lock)
{
    if (lock_gate_is_mine()) {
        return true;
    }
    if (MW_LOCK_ORDER && !lock_is_mine(lock)) {
        lock_check_order(lock); /* what the thread has itself it does not wait for */
    }
    if (!lock_grab(lock, 0)) {
        return false;
    }
    lock_note_taken(lock);
    return true;
}

/* How long a handler of misuse waits for a lock. */
#define HANDLER_PATIENCE_MS 3000u

static bool lock_spin(struct lock *lock)
{
    for (int spin = 0; spin < LOCK_SPINS; spin++) {
        if (atomic_get(&lock->state) == 0 && lock_grab(lock, 0)) {
            return true;
        }
        cpu_relax();
    }
    return false;
}

/* A handler of misuse allocates. A lock that its own thread holds, or one whose owner waits for such a
 * lock, never comes free: the program ends, as it would have without the handler. Not by way of the
 * handler of SIGABRT, which may be the one that waits here. */
static COLD void lock_wait_in_handler(struct lock *lock, uintptr_t state)
{
    if (lock_is_mine(lock)) {
        os_abort_unhandled();
    }
    uint64_t since_ms = os_now_ms();
    os_wait(&lock->state, (uint32_t)state, HANDLER_PATIENCE_MS);
    /* A wake comes earlier; then the same thread may have taken the lock once more. */
    if (atomic_get(&lock->state) == state && os_now_ms() - since_ms >= HANDLER_PATIENCE_MS / 2) {
        os_abort_unhandled();
    }
}

/* Who has slept takes the lock as one that is waited for: there may be other sleepers. The kernel
 * compares the lower half of the state, which tells whether somebody waits; that two holders may
 * have it in common does no harm. */
/* How long one sleeps whom a thread in the strict mode of seccomp may have to wake, which it cannot. */
#define STRICT_SLEEP_MS 10u

static void lock_sleep(struct lock *lock)
{
    while (!lock_grab(lock, LOCK_WAITED)) {
        uintptr_t state = atomic_get(&lock->state);
        bool is_marked = (state & LOCK_WAITED) != 0;
        if (state == 0 ||
            (!is_marked && !atomic_replace(&lock->state, &state, state | LOCK_WAITED))) {
            continue;
        }
        if (unlikely(fault_is_told_here())) {
            lock_wait_in_handler(lock, state | LOCK_WAITED);
        } else {
            uint32_t timeout_ms = os_some_are_strict() ? STRICT_SLEEP_MS : 0;
            os_wait(&lock->state, (uint32_t)(state | LOCK_WAITED), timeout_ms);
        }
    }
}

static NOINLINE void lock_wait(struct lock *lock)
{
    uint32_t queue = atomic_add(&lock->queue, 1) + 1;
    bool is_ours = lock_spin(lock);
    uint64_t wait_ns = 0;
    if (!is_ours) {
        uint64_t since_ns = os_now_ns();
        lock_sleep(lock);
        wait_ns = os_now_ns() - since_ns;
    }
    atomic_sub(&lock->queue, 1);
    lock->queue_most = queue > lock->queue_most ? queue : lock->queue_most;
    lock->spins += is_ours;
    lock->waits += !is_ours;
    lock->wait_ns += wait_ns;
    lock->wait_ns_most = wait_ns > lock->wait_ns_most ? wait_ns : lock->wait_ns_most;
}

static void lock_count_turn(struct lock *lock)
{
    void *owner = os_thread_id();
    if (lock->last_owner != owner) {
        lock->last_owner = owner;
        lock->owner_changes++;
    }
    atomic_set(&lock->turns, atomic_get(&lock->turns) + 1);
}

static void lock_take(struct lock *lock)
{
    if (lock_gate_is_mine()) {
        return;
    }
    lock_check_order(lock);
    if (unlikely(!lock_grab(lock, 0))) {
        lock_wait(lock);
    }
    check(lock_is_mine(lock));
    lock_note_taken(lock);
}

static void lock_release(struct lock *lock)
{
    if (lock_gate_is_mine()) {
        return;
    }
    check(lock_is_mine(lock));
    lock_note_released(lock);
    lock_count_turn(lock);
    uintptr_t was = atomic_exchange_explicit(&lock->state, 0, memory_order_release);
    if (unlikely((was & LOCK_WAITED) != 0)) {
        os_wake_one(&lock->state);
    }
}

static bool lock_pass_wake_on(struct lock *lock)
{
    if (atomic_get(&lock->queue) != 0) {
        os_wake_one(&lock->state);
    }
    return false;
}

static void lock_reset_counts(struct lock *lock)
{
    bool is_held = lock_is_mine(lock);
    if (!is_held) {
        lock_take(lock);
    }
    atomic_set(&lock->turns, 0);
    lock->owner_changes = 0;
    lock->spins = 0;
    lock->waits = 0;
    lock->wait_ns = 0;
    lock->wait_ns_most = 0;
    lock->queue_most = 0;
    if (!is_held) {
        lock_release(lock);
    }
}

static void lock_release_in_child(struct lock *lock)
{
    if (lock_is_mine(lock)) {
        lock_note_released(lock);
    }
    atomic_set(&lock->queue, 0);
    atomic_set(&lock->state, 0);
}
