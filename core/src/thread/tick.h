/* SPDX-License-Identifier: MIT
 *
 * Time: what has to happen now and then, done by whoever calls the allocator, for all threads. Where
 * the hit path's lists end, slots are counted (heap->until_tick), and after some hundred of them the
 * clock is read, or after a few if memory waits to go back. That is a tick.
 */
#ifndef MALLOW_TICK_H
#define MALLOW_TICK_H

#include "heap.h"

/* Reads the clock and does what is due. Any heap of the calling thread. */
static NOINLINE void heap_tick(struct heap *heap);

ALWAYS_INLINE void heap_tick_if_due(struct heap *heap)
{
    if (unlikely(heap->until_tick < 0)) {
        heap_tick(heap);
    }
}

/* The part that concerns all threads: heaps at rest are robbed of free pages, and free memory goes back
 * to the kernel when its time is over. Any thread. */
static void keep_house(uint64_t now_ms);

#endif
