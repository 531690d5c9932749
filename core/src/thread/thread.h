/* SPDX-License-Identifier: MIT
 *
 * Which heap a thread uses, from its first call to its end, and what fork does to all of them.
 *
 * A thread gets a heap at its first call that needs one. When it ends, its slabs are handed on and
 * the heap waits for another thread. Calls that come even later, from destructors of the libc, the
 * first few frees of a thread that has not allocated, and calls of a thread for which there is no
 * memory for a heap, use the one shared heap under a lock.
 */
#ifndef MALLOW_THREAD_H
#define MALLOW_THREAD_H

#include "heap.h"
#include "wishes.h"

/* The heap of a thread that has none: its lists are empty and its clock is due, so the hit paths
 * leave for the slow one, and nothing is ever written to it. Constant, so that it lies in a page of
 * the file. */
static const struct heap heap_none = {.until_tick = -1, .table_most = SMALL_MAX};
#define HEAP_NONE ((struct heap *)&heap_none)

/* 16 bytes in all, so that a late dlopen finds room. The first is what the hit path uses: it stays
 * HEAP_NONE where every call has to take the slow path (fill options). */
#if MW_IN_LIBC
#define heap_self THREAD_WORD(struct heap *, 0)
#define heap_own THREAD_WORD(struct heap *, 1)
#else
static THREAD_LOCAL struct heap *heap_self = HEAP_NONE;
static THREAD_LOCAL struct heap *heap_own;
#endif

/* In heap_own: the thread has handed its slabs on. */
#define HEAP_ENDED ((struct heap *)1)

/* In heap_own, as even numbers: frees of a thread that has not allocated. Such a thread gets a heap
 * of its own after some of them; the few that the libc makes when a thread is as good as dead must
 * not, for nobody would take that heap back. */
#define HEAP_FREES(count) ((struct heap *)(2 * (uintptr_t)(count)))
#define FREES_WITHOUT_HEAP 16u

/* Whether the calling thread has a heap of its own: its word counts frees before, and has another value at its end. */
static inline bool thread_has_heap(void)
{
    return heap_own > HEAP_FREES(FREES_WITHOUT_HEAP);
}
static bool (*const purge_thread_has_heap)(void) = thread_has_heap;

/* The calling thread's heap, or the shared one, locked. Never NULL. A thread that only frees gets a
 * heap of its own by the second function after some frees. */
static struct heap *thread_enter(void);
static struct heap *thread_enter_to_free(void);
static void thread_leave(struct heap *heap);

/* Whether calls are sent through the slow path, to be filled there. */
static bool thread_stays_slow(void);

/* Sends all calls of this thread, and of threads to come, through the slow path. */
static void thread_stay_slow(void);

/* Calls a function with every lock; whether it said true of one of them. */
UNUSED static bool fork_visit_locks(bool (*visit)(struct lock *));

/* How many arenas there are, or will be when there are threads enough. It never falls: programs keep the number, and those
 * that they make have the numbers behind it. */
static unsigned thread_arenas(void);

/* At most so many arenas from now on; those that exist stay. 0 means no limit. Always true. */
static bool thread_limit_arenas(unsigned limit);

/* Starts the allocator if no call has done so yet. */
static void process_init(void);

#endif
