/* SPDX-License-Identifier: MIT */
#include "keep.h"

#include "chance.h"
#include "moving.h"
#include "remote.h"

/* Returns how many slots there were. The list leaves the heap first: the child of a fork must not find a slot in two
 * places. */
static uint32_t heap_send_list_home(struct heap *heap, unsigned class)
{
    struct extent *current = heap->bins[class].current;
    struct slot *list = heap->free[class];
    struct slot *others = NULL;
    struct slot *next;
    uint32_t count = 0;
    moving_begin(heap);
    heap->free[class] = NULL;
    heap->rooms[class] = 0;
    order_stores();
    for (struct slot *slot = list; slot != NULL; slot = next) {
        list_slot_check(slot, class);
        next = slot_next(slot);
        count++;
        if (current != NULL && (uintptr_t)slot - current->start < extent_size(current)) {
            check(current->slab.left > 0);
            slot_push(&current->slab.local, slot);
            current->slab.left--;
        } else {
            slot_set_next(slot, others);
            others = slot;
        }
    }
    heap_count_flush(heap, class, count);
    check_slow(current == NULL || slab_is_valid(current));
    heap_return_others(heap, others, class);
    moving_end(heap);
    return count;
}

static void heap_return_small_list(struct heap *heap, unsigned class)
{
    heap_defer_sample(heap, class, heap_send_list_home(heap, class));
}

static void heap_take_list_back(struct heap *heap, unsigned class)
{
    struct slot *slot = heap->free[class];
    struct slot *others = NULL;
    uint32_t count = 0;
    moving_begin(heap);
    heap->free[class] = NULL;
    heap->rooms[class] = 0;
    order_stores(); /* as where a list is sent home */
    while (slot != NULL) {
        list_slot_check(slot, class);
        struct slot *next = slot_next(slot);
        struct extent *extent = pagemap_find(slot);
        struct heap *owner = atomic_get(&extent->owner);
        if (owner == heap || owner == NULL) {
            heap_takes_back(heap, extent, slot);
        } else {
            slot_set_next(slot, others);
            others = slot;
        }
        slot = next;
        count++;
    }
    heap_count_flush(heap, class, count);
    heap_return_others(heap, others, class);
    moving_end(heap);
    heap_defer_sample(heap, class, count);
}

static void heap_note_kept(struct heap *heap, unsigned class)
{
    check(heap_is_sampling(heap) && class < SMALL_CLASSES);
    if (heap_takes_candidate(heap, class)) {
        uint8_t thinning = heap->sampler.taken_thinning;
        uint32_t count = heap_send_list_home(heap, class);
        heap_await_sample(heap, class, thinning, count - 1);
        heap->rooms[class] =
            (int16_t)list_most(heap, class); /* what is put now has turns before that one */
    }
}
