/* SPDX-License-Identifier: MIT
 *
 * Slabs that the heap does not own: frees into them, and giving up one's own. Frees are collected
 * by slab in a few outboxes; each goes out as one list, to the slab's remote list with one atomic
 * operation, or to the depot under its lock.
 */
#ifndef MALLOW_REMOTE_H
#define MALLOW_REMOTE_H

#include "heap_state.h"

/* The outbox that a slab uses. */
ALWAYS_INLINE struct outbox *heap_outbox(struct heap *heap, struct extent *extent)
{
    return &heap->outboxes[((uintptr_t)extent / sizeof *extent) % OUTBOXES];
}

/* Frees a slot into a slab of another heap, or of none, when its outbox is full or another
 * slab's. */
static NOINLINE void heap_free_remote_slow(struct heap *heap, struct extent *extent,
                                           struct slot *slot);

/* Whether an outbox is empty, or has slots of its slab, as many as it says, and may take more. */
static bool outbox_is_valid(struct outbox *outbox);

ALWAYS_INLINE void heap_free_remote(struct heap *heap, struct extent *extent, struct slot *slot)
{
    struct outbox *outbox = heap_outbox(heap, extent);
    check(!heap_is_anothers(heap) && slab_has_slot(extent, slot));
    if (unlikely(outbox->slab != extent || outbox->count + 1 >= outbox->most)) {
        heap_free_remote_slow(heap, extent, slot);
        return;
    }
    slot_push(&outbox->head, slot);
    outbox->count++;
    heap->until_tick--;
}

/* Frees a block of a common slab at once, see common_try_free. */
static bool heap_try_free_to_common(struct heap *heap, struct extent *extent, struct slot *slot);

/* Gives slots of slabs that the heap does not own, a list of one class, back to them. */
static void heap_return_others(struct heap *heap, struct slot *list, unsigned class);

/* Brings a list of slots of medium classes back to their depots. */
static void heap_send_to_depot(struct heap *heap, struct slot *list);

/* Frees a medium slot of which the thread allocates none. */
static void heap_free_to_tray(struct heap *heap, struct extent *extent, struct slot *slot);

/* Sends all frees that wait in outboxes. */
static void heap_flush_outboxes(struct heap *heap);

/* What the heap freed into a slab before it became the owner becomes local. */
static void heap_empty_own_outbox(struct heap *heap, struct extent *extent);

/* Gives up one slab that the heap owns and that is in none of its lists: it is shared if it has
 * enough free slots, its pages go to a stack if it is empty, and else the next free finds it
 * without owner. */
static void heap_abandon_slab(struct heap *heap, struct extent *extent);

/* Makes plain pages of an empty slab that the heap owns and that is in no list; they go to a
 * stack. */
static void heap_release_slab(struct heap *heap, struct extent *extent);

#endif
