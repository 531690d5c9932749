/* SPDX-License-Identifier: MIT */
#include "stack.h"

#include "chains.h"
#include "chance.h"
#include "moving.h"
#include "stack_limit.h"
#include "tray.h"

/* What is resident is asked only if there is more than this in the stacks; of so many blocks, of so
 * many pages of each at its end and in its middle. */
#define PROBE_MIN (4 * MiB)
#define PROBE_BLOCKS 8u
#define PROBE_PAGES 32u

/* How often a probe's answer is used before the next probe. */
#define PROBE_PAUSE 64u

/* --- Take by alignment ------------------------------------------------------------------------ */

static struct extent *stack_pop_aligned(struct heap *heap, size_t pages, size_t alignment)
{
    unsigned class = page_class_of(pages);
    for (; class < PAGE_CLASSES && page_class_pages(class) <= 2 * pages; class ++) {
        struct extent *extent = stack_pop(heap, class);
        if (extent != NULL && (extent->start & (alignment - 1)) == 0) {
            heap->until_tick--;
            return extent;
        }
        if (extent != NULL) {
            stack_put_back(heap, class, extent);
        }
    }
    return NULL;
}

/* A few pages that somebody takes again at once are no reason to look at the clock more often. */
static void heap_free_chain(struct heap *heap, struct extent *chain)
{
    if (arena_free_chain(chain) > WAITING_BYTES >> os_page_shift) {
        heap->released_ms = atomic_get(&heaps.kept_house_ms);
    }
}

static void stack_release(struct heap *heap, struct extent *chain)
{
    if (chain != NULL) {
        check(atomic_get(&heap->stack_pages) >= chain_pages(chain));
        heap_count_stack(heap, -chain_pages(chain));
        heap_free_chain(heap, chain);
    }
}

/* Makes stack_pages right: adds what the hit paths did, and takes out what others have robbed. */
static void stack_recount(struct heap *heap)
{
    lists_count(heap);
    if (atomic_get(&heap->robbed_pages) != 0) {
        check(atomic_get(&heap->robbed_pages) <= atomic_get(&heap->stack_pages));
        heap_count_stack(heap, -atomic_swap(&heap->robbed_pages, 0)); /* pairs with stack_rob */
    }
}

/* --- What is resident ------------------------------------------------------------------------- */

/* Adds how many pages of a block were looked at, in its middle and at its end, and how many of them
 * are resident. */
static void block_probe(struct extent *extent, size_t *looked, size_t *resident)
{
    size_t pages = extent_pages(extent);
    size_t count = size_min(pages, PROBE_PAGES);
    size_t firsts[] = {pages - count, (pages - count) / 2};
    for (unsigned i = 0; i < (pages > 2 * count ? 2u : 1u); i++) {
        char *start = (char *)extent->start + (firsts[i] << os_page_shift);
        *looked += count;
        *resident += os_resident_pages(start, count);
    }
}

/* Finds out for a few blocks how much of them is resident. */
static void stack_probe(struct heap *heap)
{
    size_t looked = 0;
    size_t resident = 0;
    unsigned blocks = 0;
    for (unsigned class = PAGE_CLASSES; class -- > 8 && blocks < PROBE_BLOCKS;) {
        struct extent *chain = stack_take_all(heap, class);
        if (chain != NULL) {
            block_probe(chain, &looked, &resident);
            stack_put(heap, class, chain);
            blocks++;
        }
    }
    heap->stack_resident = (uint8_t)(looked != 0 ? resident * 64 / looked : 64);
}

/* Whether stack_resident tells of what lies in the stacks now. Not asked in the secure build, which serves
 * programs that may be killed for the call. */
static bool stack_knows_resident(struct heap *heap)
{
    if (MW_FENCES || !option(OPTION_ask_resident) ||
        atomic_get(&heap->stack_pages) << os_page_shift < PROBE_MIN) {
        return false;
    }
    if (heap->probe_pause == 0) {
        heap->probe_pause = PROBE_PAUSE;
        moving_begin(heap);
        stack_probe(heap);
        moving_end(heap);
    }
    heap->probe_pause--;
    return true;
}

/* Whether what lies in the stacks is mostly address space. */
static bool stack_is_sparse(struct heap *heap)
{
    return stack_knows_resident(heap) && stack_was_sparse(heap);
}

/* --- Leaving ---------------------------------------------------------------------------------- */

static void stack_flush(struct heap *heap)
{
    moving_begin(heap);
    for (unsigned class = 0; class < PAGE_CLASSES; class ++) {
        stack_release(heap, stack_take_all(heap, class));
    }
    moving_end(heap);
    stack_recount(heap);
}

/* Leaves the first `keep` blocks of a chain in the stack that it was taken from, and gives the rest to
 * the arenas. */
static void stack_keep(struct heap *heap, unsigned class, struct extent *chain, size_t keep)
{
    struct extent *rest = chain_cut(&chain, keep);
    if (chain != NULL) {
        stack_put(heap, class, chain);
    }
    stack_release(heap, rest);
}

/* Gives the lower half of each stack to the arenas: what has been there for the longest time. Of the
 * class `latest` at least the block on top stays. */
static void stack_halve(struct heap *heap, unsigned latest)
{
    for (unsigned class = 0; class < PAGE_CLASSES; class ++) {
        if (stack_is_list(heap, class)) {
            stack_release(heap, list_halve(heap, class, class == latest));
            continue;
        }
        struct extent *chain = stack_take_all(heap, class);
        size_t count = 0;
        for (struct extent *at = chain; at != NULL; at = at->slab.below) {
            count++;
        }
        stack_keep(heap, class, chain, size_max(count / 2, class == latest));
    }
    check_slow(stack_is_valid(heap));
}

/* What the stacks of the heap may hold, in pages. */
static size_t stack_limit_now(struct heap *heap)
{
    size_t limit = stack_dense_limit(heap);
    bool is_above = atomic_get(&heap->stack_pages) > limit;
    return is_above && stack_knows_resident(heap) ? stack_scaled(heap, limit) : limit;
}

/* The first of the page classes below `end` above which no cell has a block. */
static unsigned cells_end(struct heap *heap, unsigned from, unsigned end)
{
    while (end > from && atomic_get(&heap->stacks[end - 1]) == NULL) {
        end--;
    }
    return end;
}

/* Where samples are taken, lists have no larger blocks than there were: see heap_listed_end_now. */
static void stack_set_listed(struct heap *heap)
{
    unsigned most = heap_listed_end_now(heap);
    unsigned end = heap->listed_most == most ? heap->listed_end : PAGE_CLASS_LISTED + 1;
    heap->listed_most = most;
    heap->listed_end = heap_is_sampling(heap) ? cells_end(heap, end, most) : most;
    heap->has_unlisted = false;
}

/* Whether lists would have other classes now. Each tick asks, so the cells are looked at when something was put. */
static bool stack_is_listed_otherwise(struct heap *heap)
{
    if (heap->listed_most != heap_listed_end_now(heap)) {
        return true;
    }
    if (likely(!heap->has_unlisted)) {
        return false;
    }
    heap->has_unlisted = false;
    return cells_end(heap, heap->listed_end, heap->listed_most) != heap->listed_end;
}

static void stack_make_private(struct heap *heap)
{
    check(!heap->is_private);
    stack_set_listed(heap);
    heap->is_private = true;
    for (unsigned class = 0; class < PAGE_CLASSES; class ++) {
        if (stack_is_listed(heap, class)) {
            struct extent *chain = cell_empty(&heap->stacks[class]);
            if (chain != NULL) {
                stack_put(heap, class, chain);
            }
        }
    }
    check_slow(stack_is_valid(heap));
}

static void stack_make_public(struct heap *heap)
{
    lists_count(heap);
    for (unsigned class = 0; class < PAGE_CLASSES; class ++) {
        if (stack_is_listed(heap, class)) {
            struct extent *chain = stack_take_all(heap, class);
            list_close(heap, block_class_of(class));
            if (chain != NULL) {
                cell_put(&heap->stacks[class], chain);
            }
        }
    }
    heap->is_private = false;
    check_slow(heap->is_orphan || stack_is_valid(heap));
}

static void stack_set_private(struct heap *heap, bool is_busy)
{
    size_t most = is_busy ? stack_private_pages(heap) : 0;
    size_t pages = atomic_get(&heap->stack_pages);
    if (heap->is_private) {
        /* Twice as much: the limit follows what is in use, up and down. */
        if (pages > 2 * most || !is_busy || stack_is_listed_otherwise(heap)) {
            moving_begin(heap);
            stack_make_public(heap);
            moving_end(heap);
        }
    } else if (pages != 0 && pages <= most && stack_may_be_private(heap) &&
               heap_listed_end_now(heap) > PAGE_CLASS_LISTED) {
        moving_begin(heap);
        stack_make_private(heap);
        moving_end(heap);
        heap->stack_limit = size_min(heap->stack_limit, most);
    }
}

/* With a block of the class `latest` the stacks have more than their limit: computes it anew, and
 * halves the stacks until they keep it. A block that is above the limit alone may stay alone. */
static NOINLINE void stack_overflow(struct heap *heap, unsigned latest)
{
    check(latest < PAGE_CLASSES && !heap_is_anothers(heap));
    stack_recount(heap);
    if (option(OPTION_dirty_decay_ms) == 0) {
        stack_flush(heap); /* nothing that is free stays */
        return;
    }
    moving_begin(heap);
    size_t limit = stack_limit_now(heap);
    if (stack_may_be_private(heap)) {
        limit = size_min(limit, stack_private_pages(heap));
    } else if (heap->is_private) {
        stack_make_public(heap);
    }
    heap->stack_limit = size_max(limit, page_class_pages(latest));
    /* Not for ever: the sum stays too large while a robber has not told yet what it took. */
    heap_set_alarm(heap);
    size_t pages = atomic_get(&heap->stack_pages);
    for (unsigned round = 0; round < 8 && atomic_get(&heap->stack_pages) > heap->stack_limit;
         round++) {
        stack_halve(heap, latest);
    }
    moving_end(heap);
    size_t left = pages - atomic_get(&heap->stack_pages);
    heap->stack_pages_before -= left;
    stack_note_left(heap, left);
}

static void stack_trim(struct heap *heap, uint32_t stamp)
{
    stack_recount(heap);
    moving_begin(heap);
    for (unsigned class = 0; class < PAGE_CLASSES; class ++) {
        if (list_begins_to_age(heap, class)) {
            continue;
        }
        struct extent *chain = stack_take_all(heap, class);
        size_t young = 0;
        for (struct extent *at = chain; at != NULL && (int32_t)(at->slab.stamp - stamp) >= 0;
             at = at->slab.below) {
            young++;
        }
        stack_keep(heap, class, chain, young);
    }
    lists_close_empty(heap);
    if (heap->is_private && heap->stack_resident < 64) {
        stack_probe(heap); /* private stacks may hold so much only while that is true */
    }
    moving_end(heap);
    stack_settle_churn(heap);
}

static void stack_rob(struct heap *heap)
{
    lock_take(&rob_lock);
    for (unsigned class = 0; class < PAGE_CLASSES; class ++) {
        struct extent *chain = cell_empty(&heap->stacks[class]);
        if (chain != NULL) {
            atomic_add(&heap->robbed_pages, chain_pages(chain)); /* pairs with stack_recount */
            arena_free_chain(chain);
        }
    }
    lock_release(&rob_lock);
}

static bool stack_has_no_cells(struct heap *heap)
{
    for (unsigned class = 0; class < PAGE_CLASSES; class ++) {
        if (atomic_get(&heap->stacks[class]) != NULL) {
            return false;
        }
    }
    return true;
}

static void stack_rob_orphan(struct heap *heap)
{
    stack_make_public(heap);
    stack_rob(heap);
}

/* --- Pages for slabs and large blocks --------------------------------------------------------- */

static void heap_put_pages(struct heap *heap, struct extent *extent)
{
    check(!extent->is_huge && extent_state(extent) == EXTENT_ACTIVE && !extent_is_slab(extent));
    check(extent->link.next == NULL && atomic_get(&extent->owner) == OWNER_NOT_A_SLAB);
    check(!heap_is_anothers(heap));
    size_t pages = extent_pages(extent);
    unsigned class = page_class_below(pages);
    if (unlikely(class >= PAGE_CLASSES)) {
        arena_free(arena_of(extent), extent); /* realloc made it larger where it was */
        return;
    }
    extent->is_zero = false;
    extent->slab.stamp = clock_stamp();
    atomic_set(&extent->state, EXTENT_CACHED);
    lists_count(heap);
    stack_push(heap, class, extent);
    heap->until_tick--;
    if (unlikely(atomic_get(&heap->stack_pages) > heap->stack_limit)) {
        stack_overflow(heap, class);
    }
    check_slow(stack_is_valid(heap));
}

static void heap_put_slab_pages(struct heap *heap, struct extent *extent)
{
    size_t pages = extent_pages(extent);
    if (likely(pages <= heap->slab_pages_due)) {
        heap->slab_pages_due -= pages;
        heap_put_pages(heap, extent);
        return;
    }
    check(extent_state(extent) == EXTENT_ACTIVE && !extent_is_slab(extent));
    extent->slab.stamp = clock_stamp();
    extent->slab.below = NULL;
    heap->until_tick--;
    heap_free_chain(heap, extent);
}

static bool stack_hand_on(struct heap *heap, struct extent *extent)
{
    check(extent_state(extent) == EXTENT_ACTIVE && !extent_is_slab(extent));
    if (heap_uses_blocks(heap) || extent_size(extent) > tray_most_bytes() ||
        heap_is_of_crowd(heap) || option(OPTION_dirty_decay_ms) == 0) {
        return false;
    }
    struct arena *arena = arena_of(extent);
    extent->is_zero = false;
    extent->slab.stamp = clock_stamp();
    atomic_set(&extent->state, EXTENT_CACHED);
    heap->until_tick--;
    if (tray_put_pages(extent)) {
        lock_take(&rob_lock);
        arena_free_chain(tray_take_pages(arena));
        lock_release(&rob_lock);
        heap->released_ms = atomic_get(&heaps.kept_house_ms);
    }
    return true;
}

/* Takes blocks that others have freed out of the tray of an arena. */
static bool stack_take_tray_of(struct heap *heap, struct arena *arena)
{
    if (!tray_has_pages(arena)) {
        return false;
    }
    lock_take(&rob_lock);
    struct extent *chain = tray_take_pages(arena);
    bool has_any = chain != NULL;
    while (chain != NULL) {
        struct extent *extent = chain;
        chain = extent->slab.below;
        check(extent_state(extent) == EXTENT_CACHED);
        stack_push(heap, page_class_below(extent_pages(extent)), extent);
    }
    lock_release(&rob_lock);
    check_slow(stack_is_valid(heap));
    return has_any;
}

/* The same of the first tray that has some, the own arena's first. */
static bool stack_take_tray(struct heap *heap)
{
    unsigned arenas_in_use = arena_count();
    bool has_any = false;
    for (unsigned i = 0; i < arenas_in_use && !has_any; i++) {
        has_any = stack_take_tray_of(heap, arena_at((heap->arena->index + i) % arenas_in_use));
    }
    return has_any;
}

static void stack_note_put(struct heap *heap, unsigned latest)
{
    lists_count(heap);
    if (atomic_get(&heap->stack_pages) > heap->stack_limit) {
        stack_overflow(heap, latest);
    }
}

/* Pages that the arenas have, when no stack has them. */
static NOINLINE struct extent *heap_take_from_arenas(struct heap *heap, size_t pages)
{
    stack_note_fetched(heap, pages);
    struct extent *extent = arenas_alloc_dirty(heap->arena, pages, os_page_size);
    if (extent != NULL) {
        return extent;
    }
    /* The process does not grow beside much free memory of other sizes: what is in the stacks goes
     * to the arenas, which join neighbours and cut to size. */
    stack_recount(heap);
    size_t in_stacks = atomic_get(&heap->stack_pages);
    size_t least = heap->stack_doublings != 0 ? stack_least(heap) : 0;
    if (in_stacks >= pages && in_stacks > size_max(arena_slack_pages(heap->arena), least) &&
        !stack_is_sparse(heap)) {
        stack_flush(heap);
        stack_note_left(heap, in_stacks);
    }
    return arenas_alloc(heap->arena, pages, os_page_size);
}

/* Where less is cached, one class more is enough: each class soon has blocks of its own, which the hit path finds. */
#define ROOMY_CACHED_MIN (1 * MiB)

static unsigned stack_class_most(struct heap *heap, unsigned class)
{
    if (heap_is_sampling(heap)) {
        return class; /* realloc would let the block grow without a chance to become a sample */
    }
    bool is_much = stack_pages_now(heap) << os_page_shift > ROOMY_CACHED_MIN;
    unsigned most = page_class_roomy(class);
    return is_much ? most : (unsigned)size_min(class + 1, most);
}

/* Of the wanted class, or the next above that has one. */
static struct extent *stack_pop_about(struct heap *heap, unsigned class)
{
    struct extent *extent = stack_pop(heap, class);
    if (extent != NULL) {
        bool was_roomy = extent->shrunk == SHRUNK_ROOMY;
        extent->shrunk = was_roomy ? SHRUNK_NEVER : extent->shrunk;
        return extent;
    }
    unsigned most = stack_class_most(heap, class);
    for (unsigned at = class + 1; extent == NULL && at <= most; at++) {
        extent = stack_pop(heap, at);
    }
    if (extent != NULL) {
        extent->shrunk = SHRUNK_ROOMY;
    }
    return extent;
}

static struct extent *heap_take_pages(struct heap *heap, size_t pages)
{
    unsigned class = page_class_of(pages);
    check(pages > 0 && class < PAGE_CLASSES);
    struct extent *extent = stack_pop_about(heap, class);
    if (extent == NULL && heap->takes_blocks && class >= PAGE_CLASS_LISTED &&
        stack_take_tray(heap)) {
        extent = stack_pop_about(heap, class);
        size_t most = size_max(heap->stack_limit, tray_most_bytes() >> os_page_shift);
        if (atomic_get(&heap->stack_pages) > most) {
            stack_overflow(heap, class);
        }
    }
    heap->until_tick--;
    if (extent == NULL) {
        extent = heap_take_from_arenas(heap, page_class_pages(class));
    }
    if (extent != NULL) {
        check(extent_pages(extent) >= pages);
        heap->slab_pages_due += extent_pages(extent); /* all of which may come back */
    }
    return extent;
}

/* --- Validity --------------------------------------------------------------------------------- */

static bool stack_is_valid(struct heap *heap)
{
    size_t pages = 0;
    lists_count(heap);
    for (unsigned class = 0; class < PAGE_CLASSES; class ++) {
        struct extent *chain = stack_take_all(heap, class);
        for (struct extent *at = chain; at != NULL; at = at->slab.below) {
            require(page_class_below(extent_pages(at)) == class && !at->is_huge);
            require(atomic_get(&at->owner) == OWNER_NOT_A_SLAB && at->link.next == NULL);
        }
        pages += chain_pages(chain) - atomic_get(&heap->stack_pages);
        if (chain != NULL) {
            stack_put(heap, class, chain);
        }
        pages += atomic_get(&heap->stack_pages); /* in lists a block counts as its class has */
        if (page_class_is_listed(class)) {
            unsigned list = block_class_of(class);
            bool has_room = *heap_limit(heap, list) != 0;
            check(has_room || heap->rooms[list] == 0);
            check(!has_room || stack_is_listed(heap, class));
        }
    }
    return pages <= atomic_get(&heap->stack_pages);
}
