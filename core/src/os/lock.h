/* SPDX-License-Identifier: MIT
 *
 * Locks on futexes that know which thread holds them. A lock has a rank; in the debug build a thread
 * that takes a lock whose rank is not above every rank that it holds ends the program, before it
 * waits: so a deadlock cannot be written.
 */
#ifndef MALLOW_LOCK_H
#define MALLOW_LOCK_H

#include "../base/atomic.h"
#include "../base/check.h"
#include "os.h"

/* The order in which locks may be taken, and in which fork takes them all. */
enum lock_rank {
    LOCK_TABLE, /* which arenas and caches the program has made */
    LOCK_DIRECT, /* an arena's direct blocks; fork takes all, and waits for none while it has another. Hooks are
                     called with it, so a thread that holds it may allocate, of another arena's too */
    LOCK_TRACK,   /* the quarantine, and large blocks that move */
    LOCK_PROCESS, /* start of the process, its options */
    LOCK_HEAPS,   /* the list of heaps */
    LOCK_SHARED,  /* the heap of threads that have none of their own */
    LOCK_TRAY,    /* slots between trays, magazines and depots */
    LOCK_POOL,    /* an arena's shared, common and depot slabs; fork takes several, by index */
    LOCK_EMPTIED, /* slabs whose memory goes to the kernel while their owner sleeps */
    LOCK_ROB,     /* pages between the stacks of a heap and the arenas */
    LOCK_RETIRED, /* large blocks that wait before their addresses are used again */
    LOCK_LIMIT,   /* growth, where there is a limit on memory */
    LOCK_GROWTH,  /* the next region of an arena; fork takes several, by index */
    LOCK_PURGE,   /* the purge of an arena; fork takes several, by index */
    LOCK_ARENA,   /* one arena; fork takes several, by index */
    LOCK_TABLES,  /* tables of tracked blocks */
    LOCK_GUARDED, /* guarded blocks */
    LOCK_META,    /* metadata pages */
    LOCK_RANKS
};

struct lock {
    _Atomic uintptr_t state; /* 0: free, else os_thread_id() of the holder, + 1 if others wait */
    _Atomic uint64_t turns;  /* lock: how often it was released. What another process reads is whole
                                if the lock is free, and this is the same, before and after */
    void *last_owner;        /* lock: who released it last, by os_thread_id() */
    uint64_t owner_changes;  /* lock: how often that was another one than before */
    uint64_t spins;          /* lock: how often somebody got it after looking again and again */
    uint64_t waits;          /* lock: how often somebody slept */
    uint64_t wait_ns;        /* lock: for how long in all */
    uint64_t wait_ns_most;   /* lock: for how long at most */
    _Atomic uint32_t queue;  /* threads that found it taken and do not have it yet */
    uint32_t queue_most;     /* lock: so many at most */
    uint16_t rank;
};

#define LOCK_INITIALIZER(lock_rank) \
    {                               \
        .rank = lock_rank           \
    }

static void lock_init(struct lock *lock, enum lock_rank rank);
static void lock_take(struct lock *lock);
static bool lock_try_take(struct lock *lock);
static void lock_release(struct lock *lock);

/* Wakes another thread that sleeps until the lock is free. A signal handler that is about to wait for
 * other threads needs it: the wake that came with the lock may have gone to the thread that it
 * interrupted, which takes the lock only when the handler returns. Returns false. */
static bool lock_pass_wake_on(struct lock *lock);

/* Lets its counters begin anew; takes the lock for that, unless the thread has it. */
static void lock_reset_counts(struct lock *lock);

/* Whether the calling thread holds it. */
static bool lock_is_mine(struct lock *lock);

/* Between these two the calling thread holds every lock there is, and taking one again has no
 * effect for it: what other handlers of fork allocate meanwhile must not deadlock. */
static void lock_gate_close(void);
static void lock_gate_open(void);
static bool lock_gate_is_mine(void);

/* In the child of a fork: frees a lock, whoever held it. Who waited for it does not exist here. */
static void lock_release_in_child(struct lock *lock);

#endif
