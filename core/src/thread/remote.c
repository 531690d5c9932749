/* SPDX-License-Identifier: MIT
 *
 * Frees into slabs of other heaps, or of none. They are collected by slab in a few outboxes, and go
 * out as one list with one atomic operation.
 */
#include "heap.h"

ALWAYS_INLINE struct outbox *heap_outbox(struct heap *heap, struct extent *extent)
{
    return &heap->outboxes[((uintptr_t)extent / sizeof *extent) % OUTBOXES];
}

/* What the heap freed into a slab before it became the owner is local now. */
static void heap_empty_own_outbox(struct heap *heap, struct extent *extent)
{
    struct outbox *outbox = heap_outbox(heap, extent);
    if (outbox->slab != extent) {
        return;
    }
    struct slab *slab = &extent->slab;
    outbox->slab = NULL;
    outbox->tail->next = slab->local;
    slab->local = outbox->head;
    uint32_t used = slab_used(extent) - outbox->count;
    slab->left = used;
    slab->bias = 0;
}

/* Hands a list of slots over to their slab. */
static void heap_send(struct heap *heap, struct extent *extent, struct slot *head,
                      struct slot *tail, uint32_t count)
{
    uint32_t total = slab_push_remote(extent, head, tail, count);
    /* An owner will find the slots when it looks for some. Without one it is up to us to notice
     * that the slab has become empty, or worth sharing. By now it may also be another slab, or
     * none; then it has an owner that is not NULL, or is as good to look after as any. */
    struct heap *owner = atomic_get_ordered(&extent->slab.owner); /* pairs with slab_disown */
    if (owner == NULL) {
        if (slab_needs_care(extent, count, total) && slab_try_own(extent, heap)) {
            heap_abandon_slab(heap, extent);
        }
    } else if (owner == OWNER_COMMON && common_pushed(extent, count, total)) {
        heap_note_release(heap);
    }
}

static NOINLINE void heap_flush_outbox(struct heap *heap, struct outbox *outbox)
{
    struct extent *extent = outbox->slab;
    outbox->slab = NULL;
    heap_send(heap, extent, outbox->head, outbox->tail, outbox->count);
}

/* Gives slots of slabs that the heap does not own back to them. */
static void heap_return_others(struct heap *heap, struct slot *list)
{
    while (list != NULL) {
        struct extent *extent = pagemap_find(list);
        struct slot *tail = list;
        uint32_t count = 1;
        while (tail->next != NULL && pagemap_find(tail->next) == extent) {
            tail = tail->next;
            count++;
        }
        struct slot *rest = tail->next;
        heap_send(heap, extent, list, tail, count);
        list = rest;
    }
}

static void heap_flush_outboxes(struct heap *heap)
{
    for (unsigned i = 0; i < OUTBOXES; i++) {
        if (heap->outboxes[i].slab != NULL) {
            heap_flush_outbox(heap, &heap->outboxes[i]);
        }
    }
}

static NOINLINE void heap_begin_outbox(struct heap *heap, struct outbox *outbox,
                                       struct extent *extent, struct slot *slot)
{
    if (outbox->slab != NULL) {
        heap_flush_outbox(heap, outbox);
    }
    uint32_t most = OUTBOX_BYTES / extent->slab.slot_size;
    most = most < 1 ? 1 : most < OUTBOX_BATCH ? most : OUTBOX_BATCH;
    *outbox = (struct outbox){extent, slot, slot, 1, most};
    if (most == 1) {
        heap_flush_outbox(heap, outbox);
    }
}

static void heap_free_remote(struct heap *heap, struct extent *extent, struct slot *slot)
{
    struct outbox *outbox = heap_outbox(heap, extent);
    if (outbox->slab != extent) {
        heap_begin_outbox(heap, outbox, extent, slot);
    } else {
        slot->next = outbox->head;
        outbox->head = slot;
        if (++outbox->count >= outbox->most) {
            heap_flush_outbox(heap, outbox);
        }
    }
    if (unlikely(--heap->budget < 0)) {
        heap_tick(heap);
    }
}
