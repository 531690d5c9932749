/* SPDX-License-Identifier: MIT
 *
 * The depot of an arena: slabs of medium classes, which no heap owns. Heaps hold a few free slots
 * of these classes in magazines (magazine.h) and come here to fill and to empty them, some slots at
 * a time, under the lock of the arena's pool.
 *
 *   In a slab of the depot slab_used() counts the slots that are with the program, in a magazine, in
 *   a tray or in a batch. A slab with a free slot is in the pool's list of its class; a full one in none;
 *   an empty one leaves the depot. `local` holds the free slots that were handed out before.
 *
 *   What a full magazine gives up stays together for a while, as a batch: the next empty magazine takes
 *   it as it is, and neither looks at the slots nor at their slabs. A batch pins slabs, so an arena has
 *   little in batches, and housekeeping brings them back.
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

/* Takes up to `want` slots of a class, of the youngest batch if there is one. Returns them as a list and their number
 * in *count; NULL if the depot has none. */
static struct slot *depot_take(struct arena *arena, unsigned class, uint32_t want, uint32_t *count);

/* The pages of the next slab of a class, and how it is added: an active extent becomes one of free
 * slots. */
static size_t depot_slab_pages(struct arena *arena, unsigned class);
static void depot_add(struct extent *extent, unsigned class);

/* Brings back a list of slots of medium classes, of slabs of any depot. Returns the slabs that became empty, as plain
 * pages, linked by `below`. */
static struct extent *depot_put(struct slot *list);

/* The number of the youngest batch of a class, of the next older one, and where a batch is, a list in one word. 0: there
 * is none. Who does not hold the pool's lock may see any order, and none that ends. */
ALWAYS_INLINE _Atomic uint8_t *batch_first_of(struct slab_pool *pool, unsigned class)
{
    check(class_is_medium(class) && class < CLASSES);
    return &pool->batch_first[class - SMALL_CLASSES];
}

ALWAYS_INLINE uint8_t batch_after(struct slab_pool *pool, uint8_t number)
{
    return atomic_get(&pool->batch_next[number - 1]);
}

ALWAYS_INLINE _Atomic uint64_t *batch_at(struct slab_pool *pool, uint8_t number)
{
    check(number > 0 && number <= BATCHES_MOST);
    return &pool->batches[number - 1];
}

/* Keeps a list of so many slots of slabs of depots, all of a class, as a batch. False if there is no room for one:
 * then nothing has changed. */
static bool depot_put_batch(struct arena *arena, unsigned class, struct slot *list, uint32_t count);

static bool depot_has_batches(struct arena *arena);

/* Takes any batch, which the caller puts; NULL if there is none. */
static struct slot *depot_take_batch(struct arena *arena);

/* Whether what is in batches is what the counts say. The pool's lock is held. */
static bool depot_batches_are_valid(struct slab_pool *pool, unsigned class);

/* Ends the program if what a link led to is no free slot of a depot, in builds that look at links. */
static void depot_slot_check(struct slot *slot);

static bool depot_slab_is_valid(struct extent *extent);

#endif
