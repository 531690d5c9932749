/* SPDX-License-Identifier: MIT
 *
 * Blocks of pages without guards that the program has freed, in the secure build: some of each arena are held back
 * before a stack or the arena gets them, so that a pointer to one that is used by mistake does not lead to another
 * block. One that comes takes any place; what was there leaves. They stay EXTENT_CACHED, so that a second free is
 * noticed, and are no heap's: any thread may take them out, by an exchange.
 *
 *   free -> held[any] -> heap_put_pages
 *
 * So the last blocks freed stay out of use until others are freed, for DIRTY_DECAY_MS at most. Some of them, at a rate
 * (rate.h), have no access meanwhile: whatever a stale pointer does there traps. Of the others the first bytes are known.
 */
#ifndef MALLOW_HELD_H
#define MALLOW_HELD_H

#include "heap_state.h"

/* Holds a block that the program has freed back. Returns the one that leaves for it, which is ACTIVE; the same one if
 * it need not wait; NULL if none leaves. Owner of the heap, who draws a random number. */
static struct extent *held_exchange(struct heap *heap, struct extent *extent);

/* Gives those that have been there since before `stamp` (clock_stamp) to the arenas, or all. Any thread. */
static void held_release_since(uint32_t stamp);
static void held_release_all(void);

static bool held_has_any(void);

#endif
