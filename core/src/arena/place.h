/* SPDX-License-Identifier: MIT
 *
 * Where the regions of an arena are mapped. Each address that was ever used costs the page map some memory for good,
 * so the places of regions that are gone are used again: a program that has all given back over and over would take
 * new ones each time else.
 *
 * In most builds a region lies below the last one, as the kernel does it, and from the top again when some are gone.
 * Where places are chosen by chance, the next is one of those of regions that are gone if these are more than
 * PLACES_SPARE, and anywhere if not.
 */
#ifndef MALLOW_PLACE_H
#define MALLOW_PLACE_H

#include "split.h"

#define REGION_ALIGNMENT (2 * MiB)
#define REGION_MAX (64 * MiB)

static_assert(REGION_MAX % REGION_ALIGNMENT == 0, "a region consists of whole huge pages");

/* Where the next region is to begin, if nothing is there. All are called with the arena's lock. */
static uintptr_t place_of_next_locked(struct arena *arena);

/* Memory for the region at `start`, whose place waits no longer; NULL if there is none. */
static struct region *place_new_region_locked(struct arena *arena, uintptr_t start);

/* A region was mapped; region_next_size is that of the next one. */
static void place_note_mapped_locked(struct arena *arena, uintptr_t start);

/* A region was unmapped, and is in no list. */
static void place_note_unmapped_locked(struct arena *arena, struct region *region);

#endif
