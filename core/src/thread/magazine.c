/* SPDX-License-Identifier: MIT */
#include "magazine.h"

#include "heap_common.h"
#include "remote.h"
#include "stack.h"

/* The limit: bytes, but not more slots than the one and not fewer than the other. It begins at the
 * least, and grows by LIMIT_STEP with each visit to the depot. */
#define MAGAZINE_BYTES (256 * KiB)
#define MAGAZINE_MOST 64u
#define MAGAZINE_LEAST 2u
#define LIMIT_STEP 2u

static void magazine_grow(struct magazine *magazine, unsigned class)
{
    uint32_t most = MAGAZINE_BYTES / class_size(class);
    most = most > MAGAZINE_MOST ? MAGAZINE_MOST : most < 2 * MAGAZINE_LEAST ? 2 * MAGAZINE_LEAST : most;
    uint32_t limit = magazine->limit + (magazine->limit == 0 ? MAGAZINE_LEAST : LIMIT_STEP);
    magazine->limit = (uint16_t)(limit < most ? limit : most);
}

/* Slots from a depot, the heap's own arena's first; if none has any, there is a new slab. */
static struct slot *magazine_take(struct heap *heap, unsigned class, uint32_t want, uint32_t *count)
{
    struct slot *list = NULL;
    unsigned arenas_in_use = arena_count();
    for (unsigned i = 0; i < arenas_in_use && list == NULL; i++) {
        list = depot_take(arena_at((heap->arena->index + i) % arenas_in_use), class, want, count);
    }
    if (list == NULL) {
        list = heap_take_holes(heap, class, want, count);
    }
    while (list == NULL) {
        struct extent *extent = heap_take_pages(heap, depot_slab_pages(heap->arena, class));
        if (extent == NULL) {
            return NULL;
        }
        depot_add(extent, class);
        /* Other threads may be faster; then there is another slab, and so on. */
        list = depot_take(arena_of(extent), class, want, count);
    }
    return list;
}

static struct slot *magazine_fill(struct heap *heap, unsigned class)
{
    struct magazine *magazine = heap_magazine(heap, class);
    check(heap->free[class] == NULL && magazine->count == 0);
    heap_note_class(heap, class);
    uint32_t want = heap->list_max == LIST_MAX_IDLE ? 1 : magazine->limit / 2 + 1u;
    uint32_t count;
    struct slot *slot = magazine_take(heap, class, want, &count);
    if (slot == NULL) {
        return NULL;
    }
    magazine_grow(magazine, class);
    heap->free[class] = slot->next;
    magazine->count = (uint16_t)(count - 1);
    heap->until_tick -= (int32_t)count;
    return slot;
}

/* Brings slots back to their slabs: those of the depot at once, blocks of common slabs as what they
 * are. */
static void magazine_put_back(struct heap *heap, struct slot *list)
{
    struct slot *of_depot = NULL;
    struct slot *others = NULL;
    struct slot *next;
    for (struct slot *slot = list; slot != NULL; slot = next) {
        next = slot->next;
        struct slot **to = slab_is_of_depot(pagemap_find(slot)) ? &of_depot : &others;
        slot->next = *to;
        *to = slot;
    }
    struct extent *empty = depot_put(of_depot);
    while (empty != NULL) {
        struct extent *below = empty->slab.below;
        heap_put_pages(heap, empty);
        empty = below;
    }
    heap_return_others(heap, others);
}

static void magazine_make_room(struct heap *heap, unsigned class)
{
    struct magazine *magazine = heap_magazine(heap, class);
    heap_note_class(heap, class);
    magazine_grow(magazine, class);
    if (magazine->count < magazine->limit) {
        return;
    }
    /* The slots that were freed last stay. */
    uint32_t keep = magazine->limit / 2;
    struct slot *last = heap->free[class];
    for (uint32_t i = 1; i < keep; i++) {
        last = last->next;
    }
    struct slot *rest = last->next;
    last->next = NULL;
    magazine->count = (uint16_t)keep;
    magazine_put_back(heap, rest);
    check_slow(magazine_is_valid(heap, class));
}

static void magazine_return(struct heap *heap, unsigned class)
{
    struct magazine *magazine = heap_magazine(heap, class);
    struct slot *list = heap->free[class];
    heap->free[class] = NULL;
    magazine->count = 0;
    magazine->limit = magazine->limit > MAGAZINE_LEAST ? magazine->limit / 2 : magazine->limit;
    magazine_put_back(heap, list);
}

static bool magazine_is_valid(struct heap *heap, unsigned class)
{
    struct magazine *magazine = heap_magazine(heap, class);
    uint32_t count = 0;
    for (struct slot *slot = heap->free[class]; slot != NULL; slot = slot->next) {
        struct extent *extent = pagemap_find(slot);
        require(slab_is_common(extent) ? common_block_size(extent, slot) >= class_size(class)
                                       : extent->slab.class == class);
        count++;
    }
    return count == magazine->count;
}
