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

/* The part that concerns all threads: heaps at rest are robbed of free pages, and free memory goes
 * back to the kernel when its time is over. Any thread; hooks of arenas only if it holds no lock. */
static void keep_house(uint64_t now_ms, bool may_call_hooks);

#endif
