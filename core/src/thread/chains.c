/* SPDX-License-Identifier: MIT */
#include "chains.h"

#include "chance.h"
#include "moving.h"

static void cell_put(_Atomic(struct extent *) *cell, struct extent *chain)
{
    check(chain != NULL && atomic_get(cell) == NULL);
    atomic_set_release(cell, chain); /* pairs with cell_empty */
    free_news_note();
}

/* Puts a block on top. The owner alone puts, and others take all: so what this has seen on top was not taken and put
 * back meanwhile, and the rest is never in the owner's hands, where a fork would lose it. */
static void cell_push(_Atomic(struct extent *) *cell, struct extent *extent)
{
    struct extent *top = atomic_get(cell);
    do {
        extent->slab.below = top;
    } while (!atomic_replace(cell, &top, extent)); /* pairs with cell_empty */
    free_news_note();
}

/* What lies below a block that may be a robber's by now. */
__attribute__((no_sanitize("thread"))) static struct extent *block_below(struct extent *extent)
{
    return extent->slab.below;
}

/* Takes the block on top; the same holds. NULL if there is none. */
static struct extent *cell_take(_Atomic(struct extent *) *cell)
{
    struct extent *top = atomic_get_acquire(cell); /* pairs with cell_push */
    while (top != NULL && !atomic_replace(cell, &top, block_below(top))) {
    }
    return top;
}

/* Whether a list of blocks and its count agree on whether it is empty. */
ALWAYS_INLINE bool list_count_matches(struct heap *heap, unsigned list)
{
    return (heap->free[list] == NULL) == (heap->rooms[list] == 0);
}

/* --- What lists hold -------------------------------------------------------------------------- */

/* What a list holds in the place of a block, see magazine.h. */
ALWAYS_INLINE struct slot *list_entry(struct extent *extent)
{
    return (struct slot *)(MW_CODED_LINKS ? (uintptr_t)extent : extent->start);
}

ALWAYS_INLINE struct extent *entry_extent(struct slot *entry)
{
    return MW_CODED_LINKS ? (struct extent *)entry : pagemap_find(entry);
}

/* Links of descriptors are never coded, those of blocks not where lists hold blocks. */
ALWAYS_INLINE struct slot *entry_next(const struct slot *entry)
{
    return (struct slot *)entry->link;
}

/* A block is on its way into a list: where that holds blocks, it counts as the program's. */
ALWAYS_INLINE void entry_begin(struct extent *extent, struct slot *next)
{
    list_entry(extent)->link = (uintptr_t)next;
    order_stores(); /* who walks an orphan's list follows the link of what is ACTIVE */
    if (!MW_CODED_LINKS) {
        atomic_set(&extent->state, EXTENT_ACTIVE);
    }
    large_note_list(extent);
}

/* A block has left a list. The page map knows no list for it, so that a second free of it is noticed. */
ALWAYS_INLINE void entry_end(struct extent *extent)
{
    if (!MW_CODED_LINKS) {
        atomic_set(&extent->state, EXTENT_CACHED);
        pagemap_set(extent->start, extent);
    }
}

/* So many pages count for blocks in a list, each as its class has them. */
ALWAYS_INLINE size_t list_pages(unsigned list, size_t count)
{
    return count * page_class_pages(page_class_of_block(list));
}

/* Counts blocks that come into a list, or leave it as an unsigned number wraps, other than by a free or a
 * malloc of the program. */
static void list_count(struct heap *heap, unsigned list, size_t count)
{
    size_t pages = list_pages(list, count);
    heap->puts[list] += count;
    heap->rooms[list] = (int16_t)(heap->rooms[list] - (int16_t)count);
    heap->listed_pages += pages;
    heap_count_stack(heap, pages);
}

/* --- What the hit paths did ------------------------------------------------------------------- */

/* Of each block class, in units of 4 KiB. */
#define GRANULES(i) \
    9 << (i), 10 << (i), 11 << (i), 12 << (i), 13 << (i), 14 << (i), 15 << (i), 16 << (i)
static const int16_t block_granules[BLOCK_CLASSES] = {GRANULES(0), GRANULES(1), GRANULES(2),
                                                      GRANULES(3), GRANULES(4), GRANULES(5),
                                                      GRANULES(6), GRANULES(7)};
#undef GRANULES

/* A compiler makes a few vector operations of the loops over all block classes: each tick has some. */
__attribute__((no_sanitize("thread"))) static size_t lists_pages(const struct heap *heap)
{
    const int16_t *rooms = heap->rooms + CLASSES;
    int32_t granules = 0;
    for (unsigned i = 0; i < BLOCK_CLASSES; i++) {
        granules -= rooms[i] * block_granules[i];
    }
    return (size_t)granules >> (os_page_shift - GRANULE_SHIFT);
}

static void lists_count(struct heap *heap)
{
    if (!heap->is_private) {
        return;
    }
    size_t pages = lists_pages(heap);
    if (pages != heap->listed_pages) {
        heap_count_stack(heap, pages - heap->listed_pages);
        heap->listed_pages = pages;
    }
}

__attribute__((no_sanitize("thread"))) static size_t stack_pages_now(const struct heap *heap)
{
    size_t pages = atomic_get(&heap->stack_pages);
    return pages - size_min(pages, heap->listed_pages) + lists_pages(heap);
}

/* Before more blocks leave a list than are known to be in all of them. */
ALWAYS_INLINE void lists_count_before(struct heap *heap, unsigned list, size_t count)
{
    if (heap->listed_pages < list_pages(list, count)) {
        lists_count(heap);
    }
}

/* A list that a free finds full may become longer by an eighth of what the stacks may still take: so a free looks at the
 * stacks when much has come. What all lists may have together is kept below what makes a free look, but not at once: limits
 * fall by half of their room at each look that finds more. So lists that fill and empty by turns are looked at rarely. */
#define ROOM_SHARE_LOG2 3u

static void list_give_room(struct heap *heap, unsigned list)
{
    size_t pages = atomic_get(&heap->stack_pages);
    size_t left = heap->stack_alarm > pages ? heap->stack_alarm - pages : 0;
    size_t share = left / page_class_pages(page_class_of_block(list)) >> ROOM_SHARE_LOG2;
    size_t most = size_min(magazine_count(heap, list) + share, LISTED_MOST);
    int16_t *limit = heap_limit(heap, list);
    *limit = (int16_t)size_max((size_t)*limit, most);
}

static void lists_look(struct heap *heap)
{
    if (!heap->is_private) {
        return;
    }
    const int16_t *rooms = heap->rooms + CLASSES;
    int16_t *limits = heap_limit(heap, CLASSES);
    int32_t granules = 0;
    for (unsigned i = 0; i < BLOCK_CLASSES; i++) {
        int16_t count = (int16_t)-rooms[i];
        heap->least[i] = heap->least[i] < count ? heap->least[i] : count;
    }
    for (unsigned i = 0; i < BLOCK_CLASSES; i++) {
        granules += limits[i] * block_granules[i];
    }
    if ((size_t)granules >> (os_page_shift - GRANULE_SHIFT) <= heap->stack_alarm) {
        return;
    }
    for (unsigned i = 0; i < BLOCK_CLASSES; i++) {
        int16_t count = (int16_t)-rooms[i];
        limits[i] = (int16_t)(count + (limits[i] - count) / 2);
    }
}

static void list_close(struct heap *heap, unsigned list)
{
    check(heap->free[list] == NULL && heap->rooms[list] == 0);
    *heap_limit(heap, list) = 0;
    heap->least[list - CLASSES] = 0;
}

static void lists_close_empty(struct heap *heap)
{
    for (unsigned list = CLASSES; list < LIST_CLASSES; list++) {
        if (heap->rooms[list] == 0) {
            list_close(heap, list);
        }
    }
}

static bool list_begins_to_age(struct heap *heap, unsigned class)
{
    if (MW_CODED_LINKS || !stack_is_list(heap, class)) {
        return false; /* there all have the stamp of when they came */
    }
    unsigned list = block_class_of(class);
    int16_t *least = &heap->least[list - CLASSES];
    bool was_empty = *least == 0;
    if (was_empty) {
        *least = (int16_t)magazine_count(heap, list);
    }
    return was_empty;
}

/* Whether an entry of a list is the start of a block of pages. One that the program freed twice may lie in a list twice, and
 * have become something else when it comes out for the second time; and the program may have overwritten a link. Of
 * descriptors neither is so. */
static bool entry_is_listed(struct slot *entry)
{
    if (MW_CODED_LINKS) {
        return true;
    }
    struct extent *extent = pagemap_find(entry);
    return extent->start == (uintptr_t)entry && !extent_is_slab(extent) &&
           extent_state(extent) == EXTENT_ACTIVE;
}

/* Where lists hold blocks, a block in one looks like the program's. */
#define LOOKED_AT_MOST 64u

static bool list_has_block(struct heap *heap, struct extent *extent)
{
    unsigned class = page_class_below(extent_pages(extent));
    if (MW_CODED_LINKS || class >= PAGE_CLASSES || !stack_is_listed(heap, class)) {
        return false;
    }
    struct slot *entry = heap->free[block_class_of(class)];
    for (unsigned i = 0; i < LOOKED_AT_MOST && entry != NULL; i++) {
        if (entry == list_entry(extent)) {
            return true;
        }
        if (!entry_is_listed(entry)) {
            return false;
        }
        entry = entry_next(entry);
    }
    return false;
}

/* --- Chains ----------------------------------------------------------------------------------- */

static size_t chain_pages(struct extent *chain)
{
    size_t pages = 0;
    for (struct extent *at = chain; at != NULL; at = at->slab.below) {
        check(extent_state(at) == EXTENT_CACHED);
        pages += extent_pages(at);
    }
    return pages;
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

/* Ends a list behind its first `*keep` entries, or before one that is none, whose number it says then. Returns the rest. */
static struct slot *list_cut(struct heap *heap, unsigned list, size_t *keep)
{
    struct slot *rest = heap->free[list];
    struct slot *last = NULL;
    size_t kept = 0;
    for (; kept < *keep && rest != NULL && entry_is_listed(rest); kept++) {
        last = rest;
        rest = entry_next(rest);
    }
    *keep = kept;
    if (last != NULL) {
        last->link = (uintptr_t)NULL;
    } else {
        heap->free[list] = NULL;
    }
    return rest;
}

/* A chain of what a list has below its first `keep` blocks. What free put there on the hit path gets its stamp now; it lies
 * above the `least` that were there all the time. Owner. */
static struct extent *list_take_below(struct heap *heap, unsigned list, size_t keep)
{
    check(list_count_matches(heap, list) || heap->is_orphan); /* its owner ended anywhere */
    size_t count = magazine_count(heap, list);
    size_t least = (size_t)heap->least[list - CLASSES];
    if (count <= keep && (keep != 0 || heap->free[list] == NULL)) {
        return NULL;
    }
    struct slot *entry = list_cut(heap, list, &keep);
    size_t taken = count - keep;
    lists_count_before(heap, list, taken);
    list_count(heap, list, -taken);
    size_t young = taken - size_min(least, taken);
    heap->least[list - CLASSES] = (int16_t)(least - size_min(least, taken));
    *heap_limit(heap, list) = (int16_t)keep;
    struct extent *chain = NULL;
    struct extent **end = &chain;
    while (entry != NULL) {
        struct extent *extent = entry_extent(entry);
        if (unlikely(!entry_is_listed(entry))) {
            break;
        }
        entry = entry_next(entry);
        if (!MW_CODED_LINKS && young > 0) {
            extent->slab.stamp = clock_stamp();
            young--;
        }
        entry_end(extent);
        heap_count_stack(heap, extent_pages(extent));
        *end = extent;
        end = &extent->slab.below;
    }
    *end = NULL;
    return chain;
}

static bool stack_is_list(struct heap *heap, unsigned class)
{
    return stack_is_listed(heap, class) && atomic_get(&heap->stacks[class]) == NULL;
}

static struct extent *list_halve(struct heap *heap, unsigned class, bool keeps_one)
{
    unsigned list = block_class_of(class);
    size_t count = magazine_count(heap, list);
    return list_take_below(heap, list, size_max(count / 2, keeps_one && count > 0));
}

static struct extent *stack_take_all(struct heap *heap, unsigned class)
{
    struct extent *chain =
        stack_is_listed(heap, class) ? list_take_below(heap, block_class_of(class), 0) : NULL;
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
        moving_begin(heap);
        stack_mark(heap, class, heap->sampler.taken_thinning);
        moving_end(heap);
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
    heap_count_stack(heap, -chain_pages(chain));
    struct slot *first = chain != NULL ? list_entry(chain) : NULL; /* NULL: it is a sample */
    while (chain != NULL) {
        struct extent *below = chain->slab.below;
        entry_begin(chain, below != NULL ? list_entry(below) : NULL);
        list_count(heap, list, 1);
        chain = below;
    }
    order_stores();
    heap->free[list] = first;
    list_give_room(heap, list);
    heap->least[list - CLASSES] = (int16_t)magazine_count(heap, list);
    if (rest != NULL) {
        cell_put(&heap->stacks[class], rest);
        heap->mark_thinning[list - CLASSES] = heap->sampler.thinning;
    }
}

static void stack_push(struct heap *heap, unsigned class, struct extent *extent)
{
    if (!stack_is_listed(heap, class) || heap->rooms[block_class_of(class)] <= -LISTED_MOST) {
        entry_end(extent);
        heap_count_stack(heap, extent_pages(extent)); /* from then on it may be a robber's */
        cell_push(&heap->stacks[class], extent);
        heap->has_unlisted |= heap_is_sampling(heap);
        return;
    }
    unsigned list = block_class_of(class);
    entry_begin(extent, heap->free[list]);
    order_stores();
    heap->free[list] = list_entry(extent);
    list_count(heap, list, 1);
    list_give_room(heap, list);
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
}

/* The block on top of the cell of a class that has a list: what lies below it goes there. Owner. */
static struct extent *cell_pop_listed(struct heap *heap, unsigned class)
{
    moving_begin(heap);
    struct extent *extent = cell_empty(&heap->stacks[class]);
    if (extent != NULL && extent->slab.below != NULL) {
        stack_put(heap, class, extent->slab.below);
    }
    moving_end(heap);
    return extent;
}

/* The block on top of a cell, NULL if there is none. Owner. */
static struct extent *cell_pop(struct heap *heap, unsigned class)
{
    _Atomic(struct extent *) *cell = &heap->stacks[class];
    if (atomic_get(cell) == NULL) {
        return NULL;
    }
    struct extent *extent =
        stack_is_listed(heap, class) ? cell_pop_listed(heap, class) : cell_take(cell);
    if (extent != NULL) {
        check(atomic_get(&heap->stack_pages) >= extent_pages(extent));
        heap_count_stack(heap, -extent_pages(extent));
    }
    return extent;
}

/* The block on top of a list; NULL if it is empty. Owner. */
static struct extent *list_pop(struct heap *heap, unsigned list)
{
    struct slot *entry = heap->free[list];
    struct extent *extent = entry != NULL ? entry_extent(entry) : NULL;
    if (extent != NULL && unlikely(!entry_is_listed(entry))) {
        return list_take_below(heap, list, 0); /* NULL, as the list ends there */
    }
    if (extent != NULL) {
        int16_t *least = &heap->least[list - CLASSES];
        heap->free[list] = entry_next(entry);
        lists_count_before(heap, list, 1);
        list_count(heap, list, -(size_t)1);
        *least = (int16_t)size_min((size_t)*least, magazine_count(heap, list));
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
    check(!extent_is_slab(extent));
    check(page_class_below(extent_pages(extent)) == class && !heap_is_anothers(heap));
    atomic_set(&extent->state, EXTENT_ACTIVE);
    return extent;
}
