/* SPDX-License-Identifier: MIT
 *
 * What holds for a heap between two calls of its thread.
 */
#ifndef MALLOW_HEAP_VALID_H
#define MALLOW_HEAP_VALID_H

#include "heap_state.h"

/* What a class says of itself, without a walk. */
static bool bin_counts_match(struct heap *heap, unsigned class);

/* Whether all slots of the hit path's list are of the class and no more than its slab has out. Walks. */
static bool heap_free_list_is_valid(struct heap *heap, unsigned class);

/* Walks over all that the heap has. Owner. */
static bool heap_check(struct heap *heap);

/* Whether nothing is left that the heap could hand out, and no slab: it may wait for another thread.
 * Owner. */
static bool heap_is_empty(struct heap *heap);

#endif
