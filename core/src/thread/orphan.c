/* SPDX-License-Identifier: MIT */
#include "orphan.h"

#include "../slots/harden.h"
#include "heap_valid.h"
#include "delay.h"
#include "remote.h"
#include "stack.h"

#include <string.h>

/* More slots than this are in no list. */
#define LIST_LENGTH_MAX 65536u

static_assert(SLAB_SLOTS_MAX < LIST_LENGTH_MAX, "a list of all slots of a slab is no circle");

/* --- Lists of an orphan ----------------------------------------------------------------------- */

/* Whether `slot` is a slot of the slab that may be free: not one that was never handed out, nor one
 * that the program is known to hold. */
static bool orphan_has_slot(struct extent *extent, struct slot *slot)
{
    if (extent_state(extent) != EXTENT_ACTIVE || !extent_is_slab(extent) ||
        (uintptr_t)slot - extent->start >= extent_size(extent)) {
        return false;
    }
    bool begins = slab_is_common(extent) ? common_block_size(extent, slot) != 0
                                         : slab_has_slot_at(extent, slot) &&
                                               slab_index(extent, slot) < slab_carved_end(extent);
    return begins && !slot_is_held(extent, slot);
}

/* Ends a list before its first member that is no such slot. NULL if it has no end. */
static struct slot *orphan_list_cut(struct slot *list)
{
    struct slot *last = NULL;
    struct slot *at = list;
    for (uint32_t length = 0; length < LIST_LENGTH_MAX; length++) {
        if (at == NULL) {
            return list;
        }
        if (!orphan_has_slot(pagemap_find(at), at)) {
            if (last == NULL) {
                return NULL;
            }
            slot_set_next(last, NULL);
            return list;
        }
        last = at;
        at = slot_next(at);
    }
    return NULL;
}

/* The slots of an outbox as a list. Its last slot has no link of its own. */
static struct slot *orphan_outbox_list(struct outbox *outbox)
{
    if (outbox->slab == NULL) {
        return NULL;
    }
    struct slot *at = outbox->head;
    for (uint32_t count = 0; count < outbox->most && at != NULL && at != outbox->tail; count++) {
        if (pagemap_find(at) != outbox->slab || !orphan_has_slot(outbox->slab, at)) {
            return NULL;
        }
        at = slot_next(at);
    }
    if (at != outbox->tail || pagemap_find(at) != outbox->slab) {
        return NULL;
    }
    slot_set_next(at, NULL);
    return outbox->head;
}

static uint32_t list_length(struct slot *list)
{
    uint32_t length = 0;
    for (struct slot *at = list; at != NULL; at = slot_next(at)) {
        length++;
    }
    return length;
}

/* Makes the heap what it is before its first use, but for what it counted. */
static void orphan_reset(struct heap *heap)
{
    struct heap *next = heap->next;
    struct heap *next_idle = heap->next_idle;
    struct arena *arena = heap->arena;
    check(heap->is_orphan && arena != NULL);
    stack_rob_orphan(heap);
    lock_take(&rob_lock); /* another robber may still be counting */
    memset(heap, 0, offsetof(struct heap, counts));
    memset(&heap->outboxes, 0, sizeof *heap - offsetof(struct heap, outboxes));
    lock_release(&rob_lock);
    heap->next = next;
    heap->next_idle = next_idle;
    heap->is_orphan = true;
    heap_init(heap, arena);
}

/* Sends what lies in the heap's lists, magazines and outboxes to where it came from. */
static void orphan_send_slots(struct heap *heap)
{
    struct slot *lists[CLASSES + OUTBOXES];
    for (unsigned class = 0; class < CLASSES; class ++) {
        lists[class] = orphan_list_cut(heap->free[class]);
        heap_count_flush(heap, class, list_length(lists[class]));
    }
    for (unsigned i = 0; i < OUTBOXES; i++) {
        lists[CLASSES + i] = orphan_list_cut(orphan_outbox_list(&heap->outboxes[i]));
    }
    delay_settle(heap);
    struct slot *waiting[DELAY_PLACES];
    for (unsigned i = 0; i < array_count(waiting); i++) {
        struct slot *slot = delay_at(heap, i);
        bool is_whole = slot != NULL && orphan_has_slot(pagemap_find(slot), slot);
        waiting[i] = is_whole ? slot : NULL;
    }
    orphan_reset(heap);
    for (unsigned i = 0; i < array_count(waiting); i++) {
        if (waiting[i] != NULL) {
            heap_free_remote(heap, pagemap_find(waiting[i]), waiting[i]);
        }
    }
    for (unsigned i = 0; i < array_count(lists); i++) {
        if (lists[i] != NULL) {
            heap_return_others(heap, lists[i],
                               i < CLASSES ? i : pagemap_find(lists[i])->slab.class);
        }
    }
    heap_flush_outboxes(heap); /* of what waited */
}

/* --- Slabs of an orphan ----------------------------------------------------------------------- */

/* A bit per slot that was found in a list of the slab at hand. */
static uint64_t found_free[LIST_LENGTH_MAX / 64] IN_SECTION(orphan); /* who empties orphans */

/* As slot_list_append, but a link that is there is not written: each page that is written is one more that the child
 * does not share with its parent. */
static void list_keep_or_append(struct slot_list *to, struct slot *slot)
{
    if (to->head != NULL && slot_next(to->tail) == slot) {
        to->tail = slot;
    } else {
        slot_list_append(to, slot);
    }
}

/* Appends what a list of the slab has before the first slot that cannot be free, or was found
 * already. Adds the length to *count. */
static void slab_list_add(struct extent *extent, struct slot_list *to, struct slot *list,
                          uint32_t *count)
{
    struct slot *next;
    for (struct slot *at = list; at != NULL; at = next) {
        uint32_t index = orphan_has_slot(extent, at) ? slab_index(extent, at) : LIST_LENGTH_MAX;
        uint64_t bit = (uint64_t)1 << (index % 64);
        if (index == LIST_LENGTH_MAX || (found_free[index / 64] & bit) != 0) {
            break;
        }
        found_free[index / 64] |= bit;
        next = slot_next(at);
        list_keep_or_append(to, at);
        ++*count;
    }
}

/* Counts the free slots of a slab anew, and gives it up as the thread would have. */
static void orphan_release_slab(struct heap *heap, struct extent *extent)
{
    struct slab *slab = &extent->slab;
    memset(found_free, 0, (slab->capacity / 64 + 1) * sizeof found_free[0]);
    uint32_t count = 0;
    uint32_t unused;
    slab_close(extent);
    struct slot *list = slab_collect_remote(extent, &unused);
    struct slot_list free = {NULL, NULL};
    slab_list_add(extent, &free, list, &count);
    slab_list_add(extent, &free, slab->local, &count);
    if (free.head != NULL && slot_next(free.tail) != NULL) {
        slot_list_end(&free);
    }
    slab->local = free.head;
    check(count <= slab->carved && atomic_get(&extent->owner) == heap && heap->is_orphan);
    slab->left = slab->carved - count;
    slab->bias = 0;
    if (slab->place != SLAB_SHARED) {
        extent->link = (struct link){NULL, NULL}; /* of a list that does not exist any more */
        slab->place = SLAB_NONE;
    }
    pagemap_set_range(extent->start, extent_size(extent), extent);
    heap_abandon_slab(heap, extent);
}

static bool slab_is_of_orphan(struct extent *extent)
{
    struct heap *owner = atomic_get(&extent->owner);
    return extent_state(extent) == EXTENT_ACTIVE && extent_is_slab(extent) && owner != NULL &&
           owner < OWNER_GUARDED && owner->is_orphan;
}

/* The slabs that orphans own, linked by bin_next. They are found by a walk, for a list of the
 * orphan's may have been in the middle of a change. */
static struct extent *orphans_slabs_locked(struct arena *arena)
{
    struct extent *slabs = NULL;
    check(lock_is_mine(&arena->lock));
    for (struct region *region = arena->regions; region != NULL; region = region->next) {
        uintptr_t at = region->start;
        while (at < region->start + region->size) {
            struct extent *extent = pagemap_find((void *)at);
            require(extent != pagemap_nothing() && extent->start == at);
            if (slab_is_of_orphan(extent)) {
                extent->bin_next = slabs;
                slabs = extent;
            }
            at = extent_end(extent);
        }
    }
    return slabs;
}

static void orphans_release_slabs(struct arena *arena)
{
    lock_take(&arena->lock);
    struct extent *slab = orphans_slabs_locked(arena);
    lock_release(&arena->lock);
    while (slab != NULL) {
        struct extent *next = slab->bin_next;
        orphan_release_slab(atomic_get(&slab->owner), slab);
        slab = next;
    }
}

/* --- All -------------------------------------------------------------------------------------- */

static void orphans_empty(struct heap *orphans)
{
    for (struct heap *heap = orphans; heap != NULL; heap = heap->next_idle) {
        orphan_send_slots(heap);
    }
    for (unsigned i = 0; i < arena_count(); i++) {
        orphans_release_slabs(arena_at(i));
    }
    for (struct heap *heap = orphans; heap != NULL; heap = heap->next_idle) {
        stack_flush(heap);
        check(heap_check(heap) && heap_is_empty(heap));
    }
}
