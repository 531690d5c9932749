/* SPDX-License-Identifier: MIT
 *
 * A heap's small classes: slabs that it owns, one of each class to allocate from. And what is done
 * to a heap as a whole: its start, its end, what it gives back in between.
 */
#ifndef MALLOW_HEAP_H
#define MALLOW_HEAP_H

#include "heap_state.h"

static void heap_init(struct heap *heap, struct arena *arena);

/* A slot of a small class when the heap's list of it is empty; NULL if out of memory. Only slots of
 * the class's own slabs are aligned to what divides their size. */
static struct slot *heap_refill(struct heap *heap, unsigned class, bool must_be_aligned);

/* The same if the current slab has local slots, which is the common case. */
static struct slot *heap_take_local(struct heap *heap, struct extent *extent);

/* The same of a ready slab, while the current one waits; see heap_prefers_ready. NULL if the ready slab
 * has only slots that were never used. */
static struct slot *heap_take_next(struct heap *heap, struct bin *bin);

/* The countdown of a slab that the heap owns has ended. */
static NOINLINE void heap_slab_event(struct heap *heap, struct extent *extent);

/* Whether the thread allocates of a small class, or did until it began to free. Where slots are kept there may be no
 * current slab. */
ALWAYS_INLINE bool heap_allocates(struct heap *heap, unsigned class)
{
    return heap->bins[class].current != NULL || heap->bins[class].is_draining ||
           heap->bins[class].is_scarce;
}

/* Whether a heap takes over a slab that it frees into. One that does not allocate such slots does
 * not, nor one that has plenty: memory must not gather where nobody needs it. */
ALWAYS_INLINE bool heap_wants_slab(struct heap *heap, unsigned class)
{
    return heap_allocates(heap, class) && heap->bins[class].ready_count < heaps_ready_most();
}

/* Puts a slab that the heap has just become the owner of where it belongs. */
static void heap_adopt(struct heap *heap, struct extent *extent);

/* Brings the hit path's list of a class, or of all, back to the slabs that it comes from. */
static void heap_return_list(struct heap *heap, unsigned class);
static void heap_return_lists(struct heap *heap);

/* Gives back what the program does not hold: lists, magazines, empty slabs, stacks, frees on their
 * way. The heap can be used on. */
static void heap_collect(struct heap *heap);

/* Much memory became free, and the program may make no call for long from now on: makes the lists
 * short and lets the next slow call read the clock. */
static NOINLINE void heap_expect_rest(struct heap *heap);

/* Memory became free: if a busy heap's stacks have much, a rest may follow. */
ALWAYS_INLINE void heap_note_release(struct heap *heap)
{
    if (unlikely(heap->list_max > LIST_MAX_WAITING &&
                 atomic_get(&heap->stack_pages) > WAITING_BYTES >> os_page_shift)) {
        heap_expect_rest(heap);
    }
}

/* The owner's part of housekeeping, what only it can hand on: lists, magazines, outboxes, empty
 * slabs, and all but a few ready ones. What has been in the stacks since before `stamp` goes to the
 * arenas. */
static void heap_settle(struct heap *heap, uint32_t stamp);

/* A slot that is free goes where it can be handed out from: the slab, a magazine, a tray, an outbox. */
static void heap_take_back(struct heap *heap, struct extent *extent, struct slot *slot);

/* Gives up all slabs, for the thread ends. */
static void heap_abandon(struct heap *heap);

#endif
