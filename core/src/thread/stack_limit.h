/* SPDX-License-Identifier: MIT
 *
 * What a heap's stacks may hold.
 */
#ifndef MALLOW_STACK_LIMIT_H
#define MALLOW_STACK_LIMIT_H

#include "heap_state.h"

/* What the stacks of an arena's heaps may hold together: this share of what the arena has in use; and
 * those of all heaps at least so much; but those of one heap at least what a full-grown slab and some
 * blocks need. */
#define STACK_SHARE 4u
#define STACK_MIN (1 * MiB)
#define STACK_MIN_EACH (128 * KiB)

/* The limits are for what is resident: of address space more may lie in the stacks, up to so many times as
 * much. */
#define STACK_SPARSE_FACTOR 16u

/* What may lie in private stacks: heap_part of so much. */
#define STACKS_PRIVATE (64 * MiB)

/* Whether less than a page in STACK_SPARSE_FACTOR of the stacks was resident at the last probe. */
ALWAYS_INLINE bool stack_was_sparse(struct heap *heap)
{
    return heap->stack_resident < 64 / STACK_SPARSE_FACTOR;
}

/* So many pages of the stacks as have `pages` resident ones, by the last probe. */
ALWAYS_INLINE size_t stack_scaled(struct heap *heap, size_t pages)
{
    return pages * 64 / size_max(heap->stack_resident, 64 / STACK_SPARSE_FACTOR);
}

/* What the stacks of the heap may hold, in pages, if it is resident. */
ALWAYS_INLINE size_t stack_dense_limit(struct heap *heap)
{
    size_t in_use = atomic_get(&heap->arena->active_pages);
    size_t heaps_in_use = size_max(atomic_get(&heaps.in_use), 1);
    size_t of_arena = in_use / STACK_SHARE / size_max(heaps_in_use / arena_count(), 1);
    size_t least = size_max(STACK_MIN / heaps_in_use, STACK_MIN_EACH) >> os_page_shift;
    return size_max(of_arena, least);
}

/* Stacks that may hold more than private ones would be public at every second look. */
ALWAYS_INLINE bool stack_may_be_private(struct heap *heap)
{
    return stack_was_sparse(heap) ||
           stack_dense_limit(heap) << os_page_shift <= heap_part(heap, STACKS_PRIVATE);
}

/* What may lie in the stacks of the heap while they are private, in pages. */
ALWAYS_INLINE size_t stack_private_pages(struct heap *heap)
{
    size_t most = heap_part(heap, STACKS_PRIVATE) >> os_page_shift;
    return stack_scaled(heap, most);
}

#endif
