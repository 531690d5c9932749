/* SPDX-License-Identifier: MIT
 *
 * Chance, in heaps that take samples: which of the slots and blocks that come into a list have a turn that is a sample,
 * the next time that they are handed out. So malloc takes what is in a list as it always does, and a list ends above
 * such a one.
 *
 * What free puts on the hit path is not looked at. It counts until_tick down, which ends early at a *candidate*: each
 * put has the same chance to be one, that of the largest slot or block that is put. So the number of puts between two of
 * them has a geometric distribution, which has no memory: it may be drawn anew at any time. It is when the chance is
 * another; a tick only takes off what it counts, as to draw takes longer. A candidate that is smaller is taken with what
 * its own chance is of that one. Other steps of until_tick count as puts that nobody looks at.
 *
 *   until_tick    5 4 3 2 1 0 -1        with tick_rest != 0 the put that makes it -1 is a candidate
 *   tick_rest - 1              17 ...   further steps until the clock is due
 */
#ifndef MALLOW_CHANCE_H
#define MALLOW_CHANCE_H

#include "heap_state.h"

/* Draws the next candidate, and lets until_tick end at it if it comes before the clock is due. */
static NOINLINE void heap_draw_candidate(struct heap *heap);

/* Sets the slots and blocks until the next tick. */
ALWAYS_INLINE void heap_set_until_tick(struct heap *heap, int32_t count)
{
    heap->until_tick = count;
    heap->tick_rest = 0;
    if (unlikely(HEAPS_SAMPLE && heap->is_sampling)) {
        heap_draw_candidate(heap);
    }
}

/* The steps until the next candidate changed, as more is put, or larger slots or blocks. */
static void heap_redraw_candidate(struct heap *heap);

/* To be asked for each put of the program into a list, once, before the next tick: whether the turn of what was put is
 * a sample, by sampler.taken_thinning. */
static bool heap_takes_candidate(struct heap *heap, unsigned list);

/* The same of what comes into a list in another way. */
static bool heap_turn_is_sample(struct heap *heap, unsigned list);

/* So many slots of a class leave its list without being handed out. Their turns were no samples, and as many to come are
 * none. Were they drawn anew, there would be too many samples: a list that is long, since the next one is far, is the
 * likelier to go back before its end. */
static void heap_defer_sample(struct heap *heap, unsigned class, uint32_t slots);

/* The list of a class, whose top has a turn that is a sample, has left: the next call that finds it empty is that sample.
 * The turns of the `others` that left with it were none, and so are as many after it: if these were left to chance again,
 * there would be too many samples. */
static void heap_await_sample(struct heap *heap, unsigned class, uint8_t thinning, uint32_t others);

/* How many of the slots of a class, or of the blocks of a list, come before one whose turn is a
 * sample. */
static uint32_t heap_turns_of(struct heap *heap, unsigned list);

/* The page classes below this one may lie in lists. Of larger blocks too many are samples: each put of a small slot
 * would have their chance to be a candidate. */
static unsigned heap_listed_end_now(const struct heap *heap);

#endif
