/* SPDX-License-Identifier: MIT
 *
 * Quarantine, in the secure build: a slot that the program frees waits before it can be handed out
 * again, so that a pointer to it that is used by mistake does not lead to another block, and nobody
 * can tell when its turn comes. Each heap has two stages.
 *
 *   free -> random[any] -> fifo[oldest] -> its slab or magazine
 *
 * What a freed slot takes the place of moves on. A slot that waits counts as one that is out, its
 * bit says that the program does not hold it, and all of it has the fill of free slots: a write is
 * found when it leaves, or later when it is handed out. More bytes than the level of security says
 * (slots/strength.h) do not wait: the oldest leave, or any of the random stage.
 */
#ifndef MALLOW_DELAY_H
#define MALLOW_DELAY_H

#include "../slots/harden.h"
#include "heap_state.h"

/* Puts a slot of `size` bytes in. Returns the one that leaves; NULL if none has to. */
static struct slot *delay_swap(struct heap *heap, struct slot *slot, size_t size);

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
