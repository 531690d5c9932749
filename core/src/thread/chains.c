/* SPDX-License-Identifier: MIT */
#include "chains.h"

#include "chance.h"

static void cell_put(_Atomic(struct extent *) *cell, struct extent *chain)
{
    check(chain != NULL && atomic_get(cell) == NULL);
    atomic_set_release(cell, chain); /* pairs with cell_empty */
    free_news_note();
}

/* Whether a list of blocks and its count agree on whether it is empty. */
ALWAYS_INLINE bool list_count_matches(struct heap *heap, unsigned list)
{
    return (heap->free[list] == NULL) == (heap->rooms[list] == 0);
}

/* Counts blocks that come into a list, or leave it as an unsigned number wraps, other than by a free or a
 * malloc of the program. */
ALWAYS_INLINE void list_count(struct heap *heap, unsigned list, size_t count)
{
    heap->puts[list] += count;
    heap->rooms[list] = (int16_t)(heap->rooms[list] - (int16_t)count);
}

static struct extent *chain_cut(struct extent **chain, size_t keep)
{
    struct extent **at = chain;
    while (*at != NULL && keep-- > 0) {
        at = &(*at)->slab.below;
    }
    struct extent *rest = *at;
    *at = NULL;
    return rest;
}

/* One chain of two, either of which may be NULL. */
static struct extent *chain_join(struct extent *upper, struct extent *lower)
{
    struct extent **end = &upper;
    while (*end != NULL && lower != NULL) {
        end = &(*end)->slab.below;
    }
    if (lower != NULL) {
        *end = lower;
    }
    return upper;
}

/* The chain that a list has. Owner. */
static struct extent *list_take_all(struct heap *heap, unsigned list)
{
    check(list_count_matches(heap, list) || heap->is_orphan); /* its owner ended anywhere */
    struct extent *chain = (struct extent *)heap->free[list];
    heap->free[list] = NULL;
    list_count(heap, list, -(size_t)magazine_count(heap, list));
    return chain;
}

static struct extent *stack_take_all(struct heap *heap, unsigned class)
{
    struct extent *chain =
        stack_is_listed(heap, class) ? list_take_all(heap, block_class_of(class)) : NULL;
    return chain_join(chain, cell_empty(&heap->stacks[class]));
}

/* The block on top of a list is one whose turn is a sample. Owner. */
static void stack_mark(struct heap *heap, unsigned class, uint8_t thinning)
{
    unsigned list = block_class_of(class);
    check(heap_is_sampling(heap) && stack_is_listed(heap, class) && heap->free[list] != NULL);
    cell_put(&heap->stacks[class], stack_take_all(heap, class));
    heap->mark_thinning[list - CLASSES] = thinning;
}

static void stack_note_sample(struct heap *heap, unsigned class)
{
    if (heap_takes_candidate(heap, block_class_of(class))) {
        stack_mark(heap, class, heap->sampler.taken_thinning);
    }
}

/* Of a class that has no list. Owner. */
static void cell_put_unlisted(struct heap *heap, unsigned class, struct extent *chain)
{
    cell_put(&heap->stacks[class], chain);
    if (unlikely(heap_is_sampling(heap))) {
        heap->has_unlisted = true;
    }
}

static void stack_put(struct heap *heap, unsigned class, struct extent *chain)
{
    if (!stack_is_listed(heap, class)) {
        cell_put_unlisted(heap, class, chain);
        return;
    }
    unsigned list = block_class_of(class);
    check(heap->free[list] == NULL && heap->rooms[list] == 0);
    uint32_t turns = heap_is_sampling(heap) ? heap_turns_of(heap, list) : LISTED_MOST;
    struct extent *rest = chain_cut(&chain, size_min(turns, LISTED_MOST));
    heap->free[list] = (struct slot *)chain;
    for (struct extent *at = chain; at != NULL; at = at->slab.below) {
        large_note_list(at);
        list_count(heap, list, 1);
    }
    if (rest != NULL) {
        cell_put(&heap->stacks[class], rest);
        heap->mark_thinning[list - CLASSES] = heap->sampler.thinning;
    }
}

static void stack_push(struct heap *heap, unsigned class, struct extent *extent)
{
    if (!stack_is_listed(heap, class) || heap->rooms[block_class_of(class)] <= -LISTED_MOST) {
        extent->slab.below = cell_empty(&heap->stacks[class]);
        cell_put_unlisted(heap, class, extent);
        return;
    }
    unsigned list = block_class_of(class);
    large_note_list(extent);
    extent->slab.below = (struct extent *)heap->free[list]; /* never encoded, see list_next */
    order_stores();
    heap->free[list] = (struct slot *)extent;
    list_count(heap, list, 1);
    if (unlikely(heap_is_sampling(heap)) && heap_turn_is_sample(heap, list)) {
        stack_mark(heap, class, heap->sampler.taken_thinning);
    }
}

static void stack_put_back(struct heap *heap, unsigned class, struct extent *extent)
{
    check(extent_state(extent) == EXTENT_ACTIVE && page_class_below(extent_pages(extent)) == class);
    atomic_set(&extent->state, EXTENT_CACHED);
    heap->listed_block = NULL; /* nor is it known to be a sample any more */
    stack_push(heap, class, extent);
    heap_count_stack(heap, extent_pages(extent));
}

/* The block on top of a cell, NULL if there is none; what lies below it comes back. Owner. */
static struct extent *cell_pop(struct heap *heap, unsigned class)
{
    struct extent *extent = cell_empty(&heap->stacks[class]);
    if (extent != NULL && extent->slab.below != NULL) {
        stack_put(heap, class, extent->slab.below);
    }
    return extent;
}

/* The block on top of a list; NULL if it is empty. Owner. */
static struct extent *list_pop(struct heap *heap, unsigned list)
{
    struct extent *extent = (struct extent *)heap->free[list];
    if (extent != NULL) {
        heap->free[list] = (struct slot *)extent->slab.below;
        list_count(heap, list, -(size_t)1);
        check(list_count_matches(heap, list));
    }
    return extent;
}

/* The block of a listed class that is next, in a heap that takes samples, and whether its turn is one. Owner. */
static struct extent *list_pop_sampling(struct heap *heap, unsigned class)
{
    unsigned list = block_class_of(class);
    uint8_t thinning = heap->mark_thinning[list - CLASSES];
    struct extent *extent = list_pop(heap, list);
    heap->listed_is_sample = extent == NULL;
    if (extent == NULL) {
        extent = cell_pop(heap, class);
        heap->sampler.taken_thinning = thinning;
    }
    heap->listed_block = extent;
    return extent;
}

static struct extent *stack_pop(struct heap *heap, unsigned class)
{
    struct extent *extent;
    if (!stack_is_listed(heap, class)) {
        extent = cell_pop(heap, class);
    } else if (unlikely(heap_is_sampling(heap))) {
        extent = list_pop_sampling(heap, class);
    } else {
        extent = list_pop(heap, block_class_of(class));
        extent = extent != NULL ? extent : cell_pop(heap, class); /* behind LISTED_MOST */
    }
    if (extent == NULL) {
        return NULL;
    }
    check(extent_state(extent) == EXTENT_CACHED && !extent_is_slab(extent));
    check(page_class_below(extent_pages(extent)) == class && !heap_is_anothers(heap));
    check(atomic_get(&heap->stack_pages) >= extent_pages(extent));
    heap_count_stack(heap, -extent_pages(extent));
    atomic_set(&extent->state, EXTENT_ACTIVE);
    return extent;
}
