/* SPDX-License-Identifier: MIT */
#include "heap_valid.h"

#include "magazine.h"
#include "delay.h"
#include "keep.h"
#include "remote.h"
#include "stack.h"

static bool bin_counts_match(struct heap *heap, unsigned class)
{
    struct bin *bin = &heap->bins[class];
    struct extent *current = bin->current;
    require(current == NULL || (current->slab.place == SLAB_CURRENT && current->slab.bias == 0));
    require(current == NULL ||
            (current->slab.class == class && atomic_get(&current->owner) == heap));
    require(bin->ready_count <= READY_MAX_ALONE);
    check(current == NULL || (heap->classes_used >> class & 1) != 0);
    return list_is_empty(&bin->ready) == (bin->ready_count == 0);
}

/* The slabs of a class in one of the heap's lists. */
static bool heap_list_is_valid(struct heap *heap, unsigned class, struct link *list,
                               enum slab_place place)
{
    uint32_t count = 0;
    for (struct link *at = list_first(list); at != list; at = at->next) {
        struct extent *extent = slab_at(at);
        require(at->next->prev == at);
        bool was_open = slab_close(extent); /* its slots are read */
        require(slab_is_valid(extent) && extent->slab.place == place);
        if (was_open) {
            slab_open(extent);
        }
        require(atomic_get(&extent->owner) == heap);
        count++;
    }
    return place != SLAB_READY || count == heap->bins[class].ready_count;
}

/* Slots of the hit path's list, up to its end. */
static bool heap_free_list_is_valid(struct heap *heap, unsigned class)
{
    struct extent *current = heap->bins[class].current;
    uint32_t of_current = 0;
    int32_t count = 0;
    for (struct slot *slot = heap->free[class]; slot != NULL; slot = slot_next(slot)) {
        struct extent *extent = pagemap_find(slot);
        count++;
        if (slab_is_common(extent)) {
            require(common_block_size(extent, slot) >= class_size(class));
            continue;
        }
        require(extent->slab.class == class && slab_has_slot_at(extent, slot));
        of_current += extent == current;
        require(of_current <= SLAB_SLOTS_MAX);
    }
    require(count + heap->rooms[class] <= (int32_t)KEPT_SLOTS);
    return current == NULL || of_current <= slab_used(current);
}

static bool heap_check(struct heap *heap)
{
    for (unsigned class = SMALL_CLASSES; class < CLASSES; class ++) {
        require(magazine_is_valid(heap, class));
    }
    for (unsigned class = 0; class < SMALL_CLASSES; class ++) {
        struct bin *bin = &heap->bins[class];
        require(heap_free_list_is_valid(heap, class));
        require(bin_counts_match(heap, class));
        if (bin->current != NULL) {
            require(slab_is_valid(bin->current) && bin->current->slab.place == SLAB_CURRENT);
        }
        require(heap_list_is_valid(heap, class, &bin->ready, SLAB_READY));
        require(heap_list_is_valid(heap, class, &bin->waiting, SLAB_WAITING));
    }
    for (unsigned i = 0; i < OUTBOXES; i++) {
        require(outbox_is_valid(&heap->outboxes[i]));
    }
    require(stack_is_valid(heap));
    return true;
}

static bool heap_is_empty(struct heap *heap)
{
    require(delay_is_empty(heap));
    for (unsigned class = 0; class < LIST_CLASSES; class ++) {
        require(heap->free[class] == NULL && heap->rooms[class] == 0);
    }
    for (unsigned class = 0; class < SMALL_CLASSES; class ++) {
        struct bin *bin = &heap->bins[class];
        require(bin->current == NULL && bin->ready_count == 0);
        require(list_is_empty(&bin->ready) && list_is_empty(&bin->waiting));
    }
    for (unsigned i = 0; i < OUTBOXES; i++) {
        require(heap->outboxes[i].slab == NULL);
    }
    for (unsigned class = 0; class < PAGE_CLASSES; class ++) {
        require(atomic_get(&heap->stacks[class]) == NULL);
    }
    return heap->classes_used == 0 && heap->magazine_bytes == 0;
}
