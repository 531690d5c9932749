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

/* A thread with a few large blocks of mixed sizes takes and frees many times as much as it has, and a share of what
 * it has is too little for a block of each size to be at hand. If in the time between two settlings so many times
 * the least that its stacks may hold left them for want of room and came back from the arenas, the least is doubled,
 * up to so much; it is halved where less than it came back. */
#define STACK_CHURN 16u
#define STACK_LEAST_MOST (4 * MiB)

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

/* What the stacks of the heap may hold at least, in pages. */
ALWAYS_INLINE size_t stack_least(struct heap *heap)
{
    size_t part = STACK_MIN / size_max(atomic_get(&heaps.in_use), 1);
    size_t least = size_max(part, STACK_MIN_EACH) << heap->stack_doublings;
    return size_min(least, STACK_LEAST_MOST) >> os_page_shift;
}

/* Pages leave the stacks for want of room, or because the process would grow beside them. Of a thread with small
 * blocks alone, which has no use for that page of its heap, nothing is noted. */
ALWAYS_INLINE void stack_note_left(struct heap *heap, size_t pages)
{
    if (heap->takes_blocks) {
        heap->stack_left += pages;
    }
}

/* Pages come from the arenas, as no stack has them. */
ALWAYS_INLINE void stack_note_fetched(struct heap *heap, size_t pages)
{
    if (!heap->takes_blocks || heap->stack_left < pages) {
        return; /* they were never there */
    }
    heap->stack_left -= pages;
    heap->stack_fetched += pages;
    if (heap->stack_fetched >= STACK_CHURN * stack_least(heap)) {
        if (stack_least(heap) < STACK_LEAST_MOST >> os_page_shift) {
            heap->stack_doublings++;
        }
        heap->stack_fetched = 0;
    }
}

ALWAYS_INLINE void stack_settle_churn(struct heap *heap)
{
    if (heap->stack_doublings > 0 && heap->stack_fetched < stack_least(heap)) {
        heap->stack_doublings--;
    }
    if (heap->takes_blocks) {
        heap->stack_left = 0;
        heap->stack_fetched = 0;
    }
}

/* What the stacks of the heap may hold, in pages, if it is resident. */
ALWAYS_INLINE size_t stack_dense_limit(struct heap *heap)
{
    size_t in_use = atomic_get(&heap->arena->active_pages);
    size_t crowd = size_max(atomic_get(&heaps.in_use) / arena_count(), 1);
    return size_max(in_use / STACK_SHARE / crowd, stack_least(heap));
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
