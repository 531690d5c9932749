/* SPDX-License-Identifier: MIT */
#include "remote.h"

#include "../slots/harden.h"
#include "emptied.h"
#include "stack.h"
#include "tray.h"

/* Slots that another heap's slab gets in one atomic operation, or fewer if they are large. */
#define OUTBOX_BATCH 32u
#define OUTBOX_BYTES (8 * KiB)

static void heap_empty_own_outbox(struct heap *heap, struct extent *extent)
{
    struct outbox *outbox = heap_outbox(heap, extent);
    if (outbox->slab != extent) {
        return;
    }
    struct slab *slab = &extent->slab;
    check(slab_used(extent) >= outbox->count && outbox->count > 0);
    check(atomic_get(&extent->owner) == heap);
    check_slow(outbox_is_valid(outbox));
    heap->counts[slab->class].sent += outbox->count;
    outbox->slab = NULL;
    order_stores();
    slot_set_next(outbox->tail, slab->local);
    slab->local = outbox->head;
    uint32_t used = slab_used(extent) - outbox->count;
    slab->left = used;
    slab->bias = 0;
    check_slow(slab_is_valid(extent));
}

static void heap_release_slab(struct heap *heap, struct extent *extent)
{
    check(atomic_get(&extent->owner) == heap && heap_outbox(heap, extent)->slab != extent);
    harden_slab_empty(extent);
    slab_retire(extent);
    heap_put_slab_pages(heap, extent);
}

static void heap_abandon_slab(struct heap *heap, struct extent *extent)
{
    struct slab *slab = &extent->slab;
    check(!heap_is_anothers(heap) && slab->place != SLAB_READY && slab->place != SLAB_WAITING);
    do {
        check(atomic_get(&extent->owner) == heap);
        if (slab->place == SLAB_SHARED) {
            slab_unshare(extent);
        }
        heap_empty_own_outbox(heap, extent);
        slab_absorb_remote(extent);
        uint32_t used = slab_used(extent);
        slab->left = used;
        slab->bias = 0;
        slab->place = SLAB_NONE;
        if (used == 0) {
            heap_release_slab(heap, extent);
            return;
        }
        if (slab->capacity - used >= slab_slots_shared(extent)) {
            slab_share(extent, heap);
        }
    } while (slab_disown(extent, heap));
}

static void heap_send_to_depot(struct heap *heap, struct slot *list)
{
    struct extent *empty = depot_put(list);
    while (empty != NULL) {
        struct extent *below = empty->slab.below;
        check(extent_state(empty) == EXTENT_ACTIVE && !extent_is_slab(empty));
        heap_put_slab_pages(heap, empty);
        empty = below;
    }
}

static void heap_free_to_tray(struct heap *heap, struct extent *extent, struct slot *slot)
{
    struct arena *arena = arena_of(extent);
    check(slab_is_of_depot(extent) && !heap_is_anothers(heap));
    heap->counts[extent->slab.class].sent++;
    heap->until_tick--;
    if (heap_is_of_crowd(heap)) {
        slot_set_next(slot, NULL); /* nobody may come for long */
        heap_send_to_depot(heap, slot);
    } else if (tray_put_slot(extent, slot)) {
        lock_take(&tray_lock);
        heap_send_to_depot(heap, tray_take_slots(arena));
        lock_release(&tray_lock);
    }
}

static bool heap_try_free_to_common(struct heap *heap, struct extent *extent, struct slot *slot)
{
    bool is_empty = false;
    unsigned class = extent->class;
    if (!common_try_free(extent, slot, &is_empty)) {
        return false;
    }
    heap->counts[class].sent++;
    heap->until_tick--;
    if (is_empty) {
        heap_put_slab_pages(heap, extent);
    }
    return true;
}

/* Hands a list of slots over to their slab. */
static void heap_send(struct heap *heap, struct extent *extent, struct slot *head,
                      struct slot *tail, uint32_t count)
{
    check(count > 0 && slab_has_slot(extent, head) && slab_has_slot(extent, tail));
    if (slab_is_of_depot(extent)) {
        slot_set_next(tail, NULL);
        heap_send_to_depot(heap, head);
        return;
    }
    uint32_t total = slab_push_remote(extent, head, tail, count);
    if (unlikely(total == 0)) {
        harden_bad_block("free", extent, head);
    }
    /* An owner will find the slots when it looks for some. Without one it is up to us to notice
     * that the slab has become empty, or worth sharing. Since the push others may have emptied it,
     * and the descriptor may be that of another slab: to look after that one does no harm. */
    struct heap *owner = atomic_get_ordered(&extent->owner); /* pairs with slab_disown */
    if (owner == NULL) {
        if (slab_needs_care(extent, count, total) && slab_try_own(extent, heap)) {
            heap_abandon_slab(heap, extent);
        }
    } else if (owner == OWNER_COMMON && common_pushed(extent, count, total)) {
        heap_put_slab_pages(heap, extent);
    } else if (owner < OWNER_GUARDED) {
        emptied_note(extent);
    }
}

static NOINLINE void heap_flush_outbox(struct heap *heap, struct outbox *outbox)
{
    struct extent *extent = outbox->slab;
    check(extent != NULL && outbox->count > 0 && outbox->count <= outbox->most);
    check_slow(outbox_is_valid(outbox));
    heap->counts[extent->class].sent += outbox->count;
    heap->sent_home += outbox->count;
    outbox->slab = NULL;
    heap_send(heap, extent, outbox->head, outbox->tail, outbox->count);
}

static void heap_return_others(struct heap *heap, struct slot *list, unsigned class)
{
    struct slot *of_depots = NULL;
    check(class < CLASSES && !heap_is_anothers(heap));
    while (list != NULL) {
        list_slot_check(list, class);
        struct extent *extent = pagemap_find(list);
        if (slab_is_of_depot(extent)) {
            struct slot *slot = list;
            list = slot_next(slot);
            slot_set_next(slot, of_depots);
            of_depots = slot;
            continue;
        }
        struct slot *tail = list;
        uint32_t count = 1;
        struct slot *rest = slot_next(tail);
        while (rest != NULL && pagemap_find(rest) == extent) {
            list_slot_check(rest, class);
            tail = rest;
            rest = slot_next(tail);
            count++;
        }
        heap_send(heap, extent, list, tail, count);
        list = rest;
    }
    heap_send_to_depot(heap, of_depots);
}

static void heap_flush_outboxes(struct heap *heap)
{
    for (unsigned i = 0; i < OUTBOXES; i++) {
        if (heap->outboxes[i].slab != NULL) {
            heap_flush_outbox(heap, &heap->outboxes[i]);
        }
    }
}

static void heap_begin_outbox(struct heap *heap, struct outbox *outbox, struct extent *extent,
                              struct slot *slot)
{
    check(slab_has_slot(extent, slot));
    if (outbox->slab != NULL) {
        heap_flush_outbox(heap, outbox);
    }
    uint32_t most = OUTBOX_BYTES / class_size(extent->class);
    most = most < 1 ? 1 : most < OUTBOX_BATCH ? most : OUTBOX_BATCH;
    if (heap_is_of_crowd(heap) && slab_is_of_depot(extent)) {
        most = 1; /* the thread may sleep from now on, and a depot's slots have no other way out */
    }
    check(outbox->slab == NULL); /* what was there is on its way */
    *outbox = (struct outbox){NULL, slot, slot, 1, most};
    order_stores();
    outbox->slab = extent;
    check_slow(outbox_is_valid(outbox));
}

static NOINLINE void heap_free_remote_slow(struct heap *heap, struct extent *extent,
                                           struct slot *slot)
{
    struct outbox *outbox = heap_outbox(heap, extent);
    if (outbox->slab != extent) {
        heap_begin_outbox(heap, outbox, extent, slot);
    } else {
        slot_push(&outbox->head, slot);
        outbox->count++;
    }
    if (outbox->count >= outbox->most) {
        heap_flush_outbox(heap, outbox);
    }
    check(outbox->slab == NULL || outbox->count < outbox->most);
    heap->until_tick--;
}

/* --- Validity --------------------------------------------------------------------------------- */

static bool outbox_is_valid(struct outbox *outbox)
{
    if (outbox->slab == NULL) {
        return true;
    }
    uint32_t count = 1;
    for (struct slot *at = outbox->head; at != outbox->tail; at = slot_next(at)) {
        require(at != NULL && slab_has_slot(outbox->slab, at) && ++count <= outbox->count);
    }
    return slab_has_slot(outbox->slab, outbox->tail) && count == outbox->count &&
           count <= outbox->most;
}
