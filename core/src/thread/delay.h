/* SPDX-License-Identifier: MIT
 *
 * Quarantine, in the secure build: a slot that the program frees waits before it can be handed out
 * again, so that a pointer to it that is used by mistake does not lead to another block, and nobody
 * can tell when its turn comes. Each heap has three stages, once for slots up to DELAY_SMALL_MAX and once for larger ones.
 *
 *   free -> fresh[next] -> random[any] -> fifo[oldest] -> its slab or magazine
 *
 * free writes into the first one alone. When that is full, or there are more bytes than the level of
 * security says (slots/strength.h), all of it moves on at once, out of line: each is settled (slots/slot.h) and
 * takes a place in the second one, and what was there moves on. While there are too many bytes the oldest leave, or any of the random
 * stage. A slot that waits counts as one that is out, its bit says that the program does not hold it, and all
 * of it has the fill of free slots: a write is found when it leaves (to the first bytes), or when it is handed out. Of an
 * unsettled one, which only the first stage has, the bit still says that the program holds it.
 *
 * Of a slot larger than strength.fill_whole the ends have the fill. Some of these, at a rate (slots/rate.h), have it
 * as a whole, and are looked at as a whole when they leave.
 */
#ifndef MALLOW_DELAY_H
#define MALLOW_DELAY_H

#include "../slots/harden.h"
#include "heap_state.h"

/* What waits is known by one word: whether it is unsettled, whether its middle was filled although it is so large, its size
 * in units, and its address. */
#define DELAY_UNSETTLED ((uint64_t)1 << 63)
#define DELAY_FILLED ((uint64_t)1 << 62)
#define DELAY_SIZE_SHIFT 48
#define DELAY_SIZE_MASK (((uint64_t)1 << 62) - ((uint64_t)1 << DELAY_SIZE_SHIFT))
#define DELAY_UNIT_LOG2 4
static_assert(ADDRESS_LIMIT <= (uintptr_t)1 << DELAY_SIZE_SHIFT, "above the address are 16 bits");
static_assert(SLOT_MAX >> DELAY_UNIT_LOG2 <= DELAY_SIZE_MASK >> DELAY_SIZE_SHIFT,
              "which hold any size and two bits");

/* A slot of which only the ends have the fill is about to be put in: at a rate its middle gets it too. Returns what
 * delay_put takes. */
static NOINLINE struct slot *delay_fill_middle(struct slot *slot, size_t size);

#if MW_DELAY_FREE
ALWAYS_INLINE struct delay_line *delay_line_of(struct heap *heap, size_t size)
{
    return size <= DELAY_SMALL_MAX ? &heap->delay.small : &heap->delay.larger;
}

/* Puts a slot of `size` bytes in, which has the fill. Whether delay_turn has to be called. */
ALWAYS_INLINE bool delay_put(struct heap *heap, const struct slot *slot, size_t size)
{
    struct delay_line *line = delay_line_of(heap, size);
    uint32_t count = line->fresh_count;
    size_t bytes = line->bytes + size;
    check(count < DELAY_FRESH && size % (1u << DELAY_UNIT_LOG2) == 0 && size <= SLOT_MAX);
    line->fresh[count] = (uintptr_t)slot | (uint64_t)size << (DELAY_SIZE_SHIFT - DELAY_UNIT_LOG2);
    line->fresh_count = count + 1;
    line->bytes = bytes;
    return unlikely(count + 1 == DELAY_FRESH) || unlikely(bytes > line->most);
}

/* The same of an unsettled one. */
ALWAYS_INLINE bool delay_put_unsettled(struct heap *heap, const struct slot *slot, size_t size)
{
    delay_line_of(heap, size)->has_unsettled = true;
    return delay_put(heap, (const struct slot *)((uintptr_t)slot | DELAY_UNSETTLED), size);
}
#else
ALWAYS_INLINE bool delay_put(struct heap *heap, const struct slot *slot, size_t size)
{
    return heap == NULL && slot == NULL && size == 0;
}

ALWAYS_INLINE bool delay_put_unsettled(struct heap *heap, const struct slot *slot, size_t size)
{
    return delay_put(heap, slot, size);
}
#endif

/* How much waits goes by the number of heaps: it is looked at anew. Owner, or who makes the heap. */
static void delay_follow_crowd(struct heap *heap);

/* In the child of a fork: the next choices are none of those that the parent would make. */
static void delay_draw_anew(struct heap *heap);

/* All that was freed last of about the size of the slot that was put in moves on, and as much leaves as has to. */
static void delay_turn(struct heap *heap, size_t size);

/* Settles all that is unsettled. Owner, or who empties orphans. */
static void delay_settle(struct heap *heap);

/* Whether a slot waits there and is unsettled, in any thread's heap at some moment. */
static bool delay_has_unsettled(struct heap *heap, const void *slot);

/* Ends the program if a slot that waits was written to. Owner. */
static void delay_check(struct heap *heap);

/* Gives all of it back. */
static void delay_empty(struct heap *heap);

/* Settles all, and gives back what is beyond the first two stages: nobody may come for long. */
static void delay_shorten(struct heap *heap);

/* All of it goes on waiting, in the quarantine of `to`. Owner of both. */
static void delay_pass_on(struct heap *from, struct heap *to);

/* What waits in a place; NULL if nothing does. Of another's heap that of some moment. */
static struct slot *delay_at(struct heap *heap, unsigned index);

static bool delay_is_empty(struct heap *heap);

#endif
