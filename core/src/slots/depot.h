/* SPDX-License-Identifier: MIT
 *
 * The depot of an arena: slabs of medium classes, which no heap owns. Heaps hold a few free slots
 * of these classes in magazines (magazine.h) and come here to fill and to empty them, some slots at
 * a time, under the lock of the arena's pool.
 *
 *   In a slab of the depot slab_used() counts the slots that are with the program, in a magazine or
 *   in a tray. A slab with a free slot is in the pool's list of its class; a full one in none;
 *   an empty one leaves the depot. `local` holds the free slots that were handed out before.
 *
 * Source of the idea: magazines and depot, Bonwick and Adams, USENIX 2001.
 */
#ifndef MALLOW_DEPOT_H
#define MALLOW_DEPOT_H

#include "slab.h"

ALWAYS_INLINE bool class_is_medium(unsigned class)
{
    return class > CLASS_OF_SMALL_MAX;
}

ALWAYS_INLINE bool slab_is_of_depot(struct extent *extent)
{
    return atomic_get(&extent->owner) == OWNER_DEPOT;
}

/* Takes up to `want` slots of a class. Returns them as a list and their number in *count; NULL if
 * the depot has none. */
static struct slot *depot_take(struct arena *arena, unsigned class, uint32_t want, uint32_t *count);

/* The pages of the next slab of a class, and how it is added: an active extent becomes one of free
 * slots. */
static size_t depot_slab_pages(struct arena *arena, unsigned class);
static void depot_add(struct extent *extent, unsigned class);

/* Brings back a list of slots of medium classes, of slabs of any depot. Returns the slabs that became empty, as plain
 * pages, linked by `below`. */
static struct extent *depot_put(struct slot *list);

/* Ends the program if what a link led to is no free slot of a depot, in builds that look at links. */
static void depot_slot_check(struct slot *slot);

static bool depot_slab_is_valid(struct extent *extent);

#endif
