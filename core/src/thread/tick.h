/* SPDX-License-Identifier: MIT
 *
 * Time: what has to happen now and then, done by whoever calls the allocator, for all threads. Slow
 * calls count the slots and blocks that they move (heap->until_tick): after 128 of them the clock
 * is read, after 32 while free memory waits to go back, at each slow call in an idle program. That
 * is a tick.
 *
 *   heap_tick     the calling thread, for its own heap: the clock; heap_settle now and then
 *     keep_house  one thread for all, every HOUSE_MS at most: robs heaps at rest, lets decay run;
 *                 the purge thread does this part too
 */
#ifndef MALLOW_TICK_H
#define MALLOW_TICK_H

#include "heap.h"

/* Reads the clock and does what its time has come for. The calling thread's heap, or the shared
 * one. */
static NOINLINE void heap_tick(struct heap *heap);

ALWAYS_INLINE void heap_tick_if_due(struct heap *heap)
{
    if (unlikely(heap->until_tick < 0)) {
        heap_tick(heap);
    }
}

/* stats_interval of jemalloc: whenever the program was given so many bytes, a thread prints the figures, at
 * one of its ticks. */
static struct {
    uint64_t bytes;        /* const after the start; 0: never */
    _Atomic int64_t until; /* bytes, of what ticks have added up */
    _Atomic bool is_printing;
    _Atomic uint64_t direct_bytes; /* of direct blocks, when a tick looked last */
} interval;

static void interval_load(void);

/* Adds what the program was given since the thread's last tick, and prints. The layer of the figures has
 * it. */
static void (*const interval_note)(struct heap *heap);

/* The part that concerns all threads: heaps at rest are robbed of free pages, and free memory goes
 * back to the kernel when its time is over. Any thread; hooks of arenas only if it holds no lock. */
static void keep_house(uint64_t now_ms, bool may_call_hooks);

/* --- The purge thread ------------------------------------------------------------------------- */

static struct {
    _Atomic bool may_start; /* the constructor has run: threads may be started */
    _Atomic bool is_started;
    _Atomic bool is_told;     /* that it could not be started */
    _Atomic uint64_t mask;    /* the signal mask of who started it */
    _Atomic bool may_be_last; /* once no other thread had a heap */
    _Atomic uint64_t runs;    /* how often it kept house */
    _Atomic uint64_t ms;      /* between these, in all */
} purge_thread;

/* Starts the thread that gives memory back if the option purge_thread says so now and threads may
 * be started. One that runs ends by itself when the option no longer does. */
static void purge_thread_want(void);

/* Whether the calling thread has a heap: thread.h knows. */
static bool (*const purge_thread_has_heap)(void);

/* A heap of some thread is nobody's any more. A process ends with its last thread, so this one ends with the last of
 * the others that allocate, until a heap is made again. */
static void purge_thread_heap_ended(void);

/* The mean time between its runs so far. */
static uint64_t purge_thread_interval_ns(void);

#endif
