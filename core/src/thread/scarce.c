/* SPDX-License-Identifier: MIT */
#include "scarce.h"

#include "heap.h"
#include "keep.h"
#include "remote.h"

/* Frees in a row that find no room in a list before the thread is taken to free all. */
#define REFUSED_MOST 8u

/* The list goes home. To the heap's own slabs, and to those without an owner, slot by slot: those that become empty by it
 * are then known to be. */
static void heap_take_list_back(struct heap *heap, unsigned class)
{
    struct slot *slot = heap->free[class];
    struct slot *others = NULL;
    uint32_t count = 0;
    heap->free[class] = NULL;
    heap->rooms[class] = 0;
    order_stores(); /* as where a list is sent home */
    while (slot != NULL) {
        list_slot_check(slot, class);
        struct slot *next = slot_next(slot);
        struct extent *extent = pagemap_find(slot);
        struct heap *owner = atomic_get(&extent->owner);
        if (owner == heap || owner == NULL) {
            heap_take_back(heap, extent, slot);
        } else {
            slot_set_next(slot, others);
            others = slot;
        }
        slot = next;
        count++;
    }
    heap_count_flush(heap, class, count);
    heap_return_others(heap, others, class);
    if (heap_is_sampling(heap)) {
        heap->sample_at[class] += count;
    }
}

static NOINLINE void heap_note_refused(struct heap *heap, unsigned class)
{
    struct bin *bin = &heap->bins[class];
    uint8_t rooms = (uint8_t)heap->rooms[class];
    check(bin->is_scarce && !class_is_medium(class));
    bin->refused = bin->refused_rooms == rooms ? (uint8_t)(bin->refused + 1) : 0;
    bin->refused_rooms = rooms;
    if (bin->refused == REFUSED_MOST) {
        bin->refused = 0;
        bin->is_scarce = false;
        bin->is_draining = true;
        heap_take_list_back(heap, class);
    }
}
