/* SPDX-License-Identifier: MIT
 *
 * Quarantine, in the secure build: a slot that the program frees waits before it can be handed out
 * again, so that a pointer to it that is used by mistake does not lead to another block, and nobody
 * can tell when its turn comes. Each heap has three stages.
 *
 *   free -> fresh[next] -> random[any] -> fifo[oldest] -> its slab or magazine
 *
 * free writes into the first one alone. When that is full, or there are more bytes than the level of
 * security says (slots/strength.h), all of it moves on at once, out of line: each takes a place in the second
 * one, and what was there moves on. While there are too many bytes the oldest leave, or any of the random
 * stage. A slot that waits counts as one that is out, its bit says that the program does not hold it, and all
 * of it has the fill of free slots: a write is found when it leaves, or later when it is handed out.
 */
#ifndef MALLOW_DELAY_H
#define MALLOW_DELAY_H

#include "../slots/harden.h"
#include "heap_state.h"

/* What waits is known by one word: its size in units, and its address. */
#define DELAY_SIZE_SHIFT 48
#define DELAY_UNIT_LOG2 4
static_assert(ADDRESS_LIMIT <= (uintptr_t)1 << DELAY_SIZE_SHIFT, "above the address are 16 bits");
static_assert(SLOT_MAX >> DELAY_UNIT_LOG2 <= UINT16_MAX, "which hold any size");

#if MW_DELAY_FREE
/* Puts a slot of `size` bytes in, which has the fill. Whether delay_turn has to be called. */
ALWAYS_INLINE bool delay_put(struct heap *heap, const struct slot *slot, size_t size)
{
    struct delay *delay = &heap->delay;
    uint32_t count = delay->fresh_count;
    size_t bytes = delay->bytes + size;
    check(count < DELAY_FRESH && size % (1u << DELAY_UNIT_LOG2) == 0 && size <= SLOT_MAX);
    delay->fresh[count] = (uintptr_t)slot | (uint64_t)size << (DELAY_SIZE_SHIFT - DELAY_UNIT_LOG2);
    delay->fresh_count = count + 1;
    delay->bytes = bytes;
    return unlikely(count + 1 == DELAY_FRESH) || unlikely(bytes > strength.delay_bytes);
}
#else
ALWAYS_INLINE bool delay_put(struct heap *heap, const struct slot *slot, size_t size)
{
    return heap == NULL && slot == NULL && size == 0;
}
#endif

/* All that was freed last moves on, and as much leaves as has to. */
static void delay_turn(struct heap *heap);

/* Ends the program if a slot that waits was written to. Owner. */
static void delay_check(struct heap *heap);

/* Gives all of it back. */
static void delay_empty(struct heap *heap);

/* What waits in a place; NULL if nothing does. Of another's heap that of some moment. */
static struct slot *delay_at(struct heap *heap, unsigned index);

static bool delay_is_empty(struct heap *heap);

/* Brings what leaves where it can be handed out from: what lies above in the layers says how. */
static void (*const delay_gives_back)(struct heap *heap, struct extent *extent, struct slot *slot);

#endif
