/* SPDX-License-Identifier: MIT */
#include "split.h"

#include "../memory/meta.h"

static struct extent_set *arena_set_of(struct arena *arena, struct extent *extent)
{
    check(lock_is_mine(&arena->lock) && extent_arena(extent) == arena->index);
    switch (extent_state(extent)) {
    case EXTENT_DIRTY:
        return extent->is_huge ? &arena->huge : &arena->dirty;
    case EXTENT_MUZZY:
        return &arena->muzzy;
    default:
        check(extent_state(extent) == EXTENT_RETAINED);
        return &arena->retained;
    }
}

/* --- Descriptors ----------------------------------------------------------------------------- */

static _Atomic unsigned arenas_used;

static unsigned arena_count(void)
{
    return atomic_get_acquire(&arenas_used); /* pairs with arena_init */
}

static struct arena *arena_at(unsigned index)
{
    check(index < arena_count());
    return &arenas[index];
}

static unsigned arenas_ever(void)
{
    return arena_count() + atomic_get_acquire(&explicit_count); /* pairs with explicit_new */
}

static struct arena *arena_ever_at(unsigned at)
{
    unsigned count = arena_count();
    return at < count ? &arenas[at] : explicit_arenas[at - count];
}

static _Atomic size_t descriptors_made;

static size_t descriptor_bytes(void)
{
    return atomic_get(&descriptors_made) * align_up(sizeof(struct extent), CACHE_LINE);
}

static void descriptor_init(struct arena *arena, struct extent *extent)
{
    atomic_set(&extent->arena, arena->index);
    extent_make_plain(extent);
}

static struct extent *descriptor_new_locked(struct arena *arena)
{
    struct extent *extent;
    check(lock_is_mine(&arena->lock));
    if (!list_is_empty(&arena->descriptors)) {
        extent = container_of(arena->descriptors.next, struct extent, link);
        list_remove(&extent->link);
    } else {
        extent = meta_alloc(sizeof *extent);
        if (extent == NULL) {
            return NULL;
        }
        atomic_add(&descriptors_made, 1);
        descriptor_init(arena, extent);
    }
    check(extent_state(extent) == EXTENT_UNUSED && extent_arena(extent) == arena->index);
    check(!extent_is_slab(extent) && atomic_get(&extent->owner) == OWNER_NOT_A_SLAB);
    return extent;
}

static void descriptor_free_locked(struct arena *arena, struct extent *extent)
{
    check(lock_is_mine(&arena->lock) && extent_arena(extent) == arena->index);
    check(!extent_is_slab(extent) && atomic_get(&extent->owner) == OWNER_NOT_A_SLAB);
    if (MW_TRACK) {
        descriptor_drops_tracks(extent);
    }
    atomic_set(&extent->state, EXTENT_UNUSED);
    list_push_front(&arena->descriptors, &extent->link);
}

static bool descriptor_reserve_locked(struct arena *arena)
{
    struct extent *extent = descriptor_new_locked(arena);
    if (extent != NULL) {
        list_push_front(&arena->reserved, &extent->link);
    }
    return extent != NULL;
}

static void descriptor_unreserve_locked(struct arena *arena)
{
    struct extent *extent = container_of(arena->reserved.next, struct extent, link);
    check(!list_is_empty(&arena->reserved));
    list_remove(&extent->link);
    descriptor_free_locked(arena, extent);
}

static void descriptor_set(struct extent *extent, uintptr_t start, size_t pages,
                           enum extent_state state, const struct extent *like)
{
    check(extent_state(extent) == EXTENT_UNUSED && state != EXTENT_UNUSED);
    check(pages > 0 && pages <= UINT32_MAX && (like->region == NULL) == like->is_huge);
    extent->start = start;
    atomic_set(&extent->pages, (uint32_t)pages);
    extent->is_huge = like->is_huge;
    extent->is_zero = like->is_zero;
    extent->shrunk = SHRUNK_NEVER;
    extent->is_decommitted = like->is_decommitted;
    extent->region = like->region;
    extent->slab.stamp = like->slab.stamp;
    extent->slab.given_back = like->slab.given_back;
    if (MW_FENCES) {
        *extent_fence(extent) = (struct fence){0};
    }
    atomic_set(&extent->state, (uint8_t)state);
    extent_map_ends(extent);
}

/* --- Hooks ------------------------------------------------------------------------------------ */

/* The arena's lock is given up while a hook runs. Nobody else changes extents of the arena meanwhile:
 * that takes the direct lock too, which the caller holds. Who only looks finds extents as they were. */
static bool arena_may_split_locked(struct arena *arena, struct extent *extent, size_t pages)
{
    extent_hooks_t *hooks = arena->hooks;
    if (likely(hooks == NULL)) {
        return true;
    }
    lock_release(&arena->lock);
    bool may = hooks_split(hooks, (void *)extent->start, extent_size(extent),
                           pages << os_page_shift, !extent->is_decommitted, arena->number);
    lock_take(&arena->lock);
    return may;
}

static bool arena_may_merge_locked(struct arena *arena, struct extent *low, struct extent *high)
{
    extent_hooks_t *hooks = arena->hooks;
    if (likely(hooks == NULL)) {
        return true;
    }
    lock_release(&arena->lock);
    bool may = hooks_merge(hooks, (void *)low->start, extent_size(low), (void *)high->start,
                           extent_size(high), !low->is_decommitted, arena->number);
    lock_take(&arena->lock);
    return may;
}

/* --- Pages that were given back --------------------------------------------------------------- */

/* Where these lie in a run of retained pages is not known: as many as can be are taken to be in front. The
 * field has another meaning in other states, see struct slab. */
static void extent_split_given_back(struct extent *front, struct extent *rest)
{
    size_t all = front->slab.given_back;
    check(extent_state(rest) == EXTENT_RETAINED && all <= extent_pages(front) + extent_pages(rest));
    front->slab.given_back = (uint32_t)size_min(all, extent_pages(front));
    rest->slab.given_back = (uint32_t)all - front->slab.given_back;
}

static void arena_note_refault_locked(struct arena *arena, size_t pages, uint32_t freed)
{
    check(lock_is_mine(&arena->lock));
    arena->pages_refaulted += pages;
    decay_note_refault(&arena->dirty_decay, pages, freed);
}

/* A free extent, in no set any more, is about to be used. Of muzzy pages nobody knows whether the kernel took
 * them. */
static void arena_note_use_locked(struct arena *arena, struct extent *extent)
{
    check(lock_is_mine(&arena->lock) && extent_arena(extent) == arena->index);
    if (extent_state(extent) == EXTENT_DIRTY) {
        decay_note_left(&arena->dirty_decay, arena->dirty.pages + arena->huge.pages);
    } else if (extent_state(extent) == EXTENT_MUZZY) {
        decay_note_left(&arena->muzzy_decay, arena->muzzy.pages);
    } else if (extent_state(extent) == EXTENT_RETAINED) {
        check(extent->slab.given_back <= extent_pages(extent));
        arena_note_refault_locked(arena, extent->slab.given_back, extent->slab.stamp);
    }
}

static void arena_note_new_huge_locked(struct arena *arena, size_t pages)
{
    size_t again = size_min(pages, arena->huge_gone_pages);
    arena_note_refault_locked(arena, again, arena->huge_gone_stamp);
    arena->huge_gone_pages -= again;
}

static struct extent *extent_split_locked(struct arena *arena, struct extent *extent, size_t pages)
{
    check(pages > 0 && pages < extent_pages(extent) && !extent_has_fence(extent));
    if (!arena_may_split_locked(arena, extent, pages)) {
        return NULL;
    }
    struct extent *rest = descriptor_new_locked(arena);
    if (rest == NULL) {
        return NULL;
    }
    size_t rest_pages = extent_pages(extent) - pages;
    atomic_set(&extent->pages, (uint32_t)pages);
    descriptor_set(rest, extent_end(extent), rest_pages, extent_state(extent), extent);
    extent_map_ends(extent);
    if (extent_state(extent) == EXTENT_RETAINED) {
        extent_split_given_back(extent, rest);
    }
    check_slow(extent_is_valid(extent) && extent_is_valid(rest));
    return rest;
}

/* --- Free extents ---------------------------------------------------------------------------- */

/* The free neighbour that may be merged with `extent`, found by an address in it. */
static struct extent *arena_mergeable_locked(struct arena *arena, struct extent *extent,
                                             uintptr_t address)
{
    struct region *region = extent->region;
    if (region != NULL && address - region->start >= region->size) {
        return NULL; /* spares the fault of a page of the page map */
    }
    struct extent *other = pagemap_find((void *)address);
    /* The arena of a descriptor never changes, so nobody else changes the rest meanwhile. */
    bool fits = other != pagemap_nothing() && extent_arena(other) == arena->index &&
                extent_state(other) == extent_state(extent) && other->is_huge == extent->is_huge &&
                other->region == region && other->is_decommitted == extent->is_decommitted &&
                !extent_has_fence(other) && !extent_has_fence(extent) &&
                extent_pages(other) + extent_pages(extent) <= UINT32_MAX;
    check(!fits || other->start == extent_end(extent) || extent_end(other) == extent->start);
    return fits ? other : NULL;
}

/* `low` swallows `high`, which lies right behind it; both are in no set. */
static void extent_merge_locked(struct arena *arena, struct extent *low, struct extent *high)
{
    check(extent_end(low) == high->start && low->region == high->region);
    check(low->is_huge == high->is_huge && !extent_is_slab(high));
    size_t pages = extent_pages(low) + extent_pages(high);
    pagemap_set(high->start - GRANULE, NULL);
    pagemap_set(high->start, NULL);
    low->is_zero &= high->is_zero;
    if (extent_state(low) == EXTENT_RETAINED) {
        low->slab.given_back += high->slab.given_back;
        check(low->slab.given_back <= pages);
    }
    if ((int32_t)(high->slab.stamp - low->slab.stamp) > 0) {
        low->slab.stamp = high->slab.stamp;
    }
    descriptor_free_locked(arena, high);
    check(pages <= UINT32_MAX);
    atomic_set(&low->pages, (uint32_t)pages);
    extent_map_ends(low);
    check_slow(extent_state(low) == EXTENT_ACTIVE ? extent_is_valid(low)
                                                  : extent_is_mapped_by_ends(low));
}

/* Joins two free neighbours, of which one is in its set. False, and nothing changes, if a hook says
 * no. */
static bool arena_join_locked(struct arena *arena, struct extent *low, struct extent *high,
                              struct extent *listed)
{
    struct extent_set *set = arena_set_of(arena, listed);
    extent_set_remove(set, listed);
    if (!arena_may_merge_locked(arena, low, high)) {
        extent_set_insert(set, listed);
        return false;
    }
    extent_merge_locked(arena, low, high);
    return true;
}

static void arena_insert_locked(struct arena *arena, struct extent *extent, enum extent_state state)
{
    check(lock_is_mine(&arena->lock) && extent_arena(extent) == arena->index);
    check(state == EXTENT_DIRTY || state == EXTENT_MUZZY || state == EXTENT_RETAINED);
    check(!extent_is_slab(extent) && atomic_get(&extent->owner) == OWNER_NOT_A_SLAB);
    atomic_set(&extent->state, (uint8_t)state);
    struct extent *high = arena_mergeable_locked(arena, extent, extent_end(extent));
    if (high != NULL) {
        arena_join_locked(arena, extent, high, high);
    }
    struct extent *low = arena_mergeable_locked(arena, extent, extent->start - GRANULE);
    if (low != NULL && arena_join_locked(arena, low, extent, low)) {
        extent = low;
    }
    extent_set_insert(arena_set_of(arena, extent), extent);
    if (state != EXTENT_RETAINED) {
        free_news_note();
    }
    check(arena_counts_match(arena));
}

static void arena_count_active_locked(struct arena *arena, bool is_huge, size_t pages)
{
    check(lock_is_mine(&arena->lock) && pages > 0);
    if (is_huge) {
        arena->huge_active_pages += pages;
        arena->huge_active_count++;
        arena->huge_counts[huge_size_of(pages)]++;
    } else {
        atomic_set(&arena->active_pages, atomic_get(&arena->active_pages) + pages);
    }
}

static void arena_take_huge_locked(struct arena *arena, struct extent *extent)
{
    check(lock_is_mine(&arena->lock) && extent->is_huge && extent_state(extent) == EXTENT_DIRTY);
    extent_set_remove(&arena->huge, extent);
    arena_note_use_locked(arena, extent);
    arena_count_active_locked(arena, true, extent_pages(extent));
    atomic_set(&extent->state, EXTENT_ACTIVE);
}

static void arena_uncount_active_locked(struct arena *arena, bool is_huge, size_t pages)
{
    check(lock_is_mine(&arena->lock) && pages > 0);
    if (is_huge) {
        check(arena->huge_active_pages >= pages && arena->huge_active_count > 0);
        check(arena->huge_counts[huge_size_of(pages)] > 0); /* counted with this size before */
        arena->huge_active_pages -= pages;
        arena->huge_active_count--;
        arena->huge_counts[huge_size_of(pages)]--;
        check((arena->huge_active_count == 0) == (arena->huge_active_pages == 0));
    } else {
        check(atomic_get(&arena->active_pages) >= pages);
        atomic_set(&arena->active_pages, atomic_get(&arena->active_pages) - pages);
    }
}

static struct extent *arena_cut_locked(struct arena *arena, struct extent_set *set,
                                       struct extent *extent, size_t lead, size_t pages)
{
    check(arena_set_of(arena, extent) == set && lead + pages <= extent_pages(extent));
    extent_set_remove(set, extent);
    if (lead != 0) {
        struct extent *aligned = extent_split_locked(arena, extent, lead);
        extent_set_insert(set, extent);
        if (aligned == NULL) {
            return NULL;
        }
        extent = aligned;
    }
    if (extent_pages(extent) > pages) {
        struct extent *rest = extent_split_locked(arena, extent, pages);
        if (rest == NULL) {
            arena_insert_locked(arena, extent, extent_state(extent));
            return NULL;
        }
        extent_set_insert(set, rest);
    }
    arena_note_use_locked(arena, extent);
    arena_count_active_locked(arena, extent->is_huge, pages);
    if (extent->shrunk == SHRUNK_ROOMY) { /* of a malloc before: now it is as was asked for */
        extent->shrunk = SHRUNK_NEVER;
    }
    atomic_set(&extent->state, EXTENT_ACTIVE);
    check(extent_pages(extent) == pages && arena_counts_match(arena));
    return extent;
}

static size_t extent_lead(struct extent *extent, size_t alignment)
{
    check(is_power_of_two(alignment) && alignment >= os_page_size);
    return (align_up(extent->start, alignment) - extent->start) >> os_page_shift;
}

static struct extent *arena_take_locked(struct arena *arena, struct extent_set *set, size_t pages,
                                        size_t alignment)
{
    check(lock_is_mine(&arena->lock) && pages > 0);
    size_t slack = (alignment >> os_page_shift) - 1;
    struct extent *extent = extent_set_fit(set, pages + slack);
    if (extent == NULL) {
        return NULL;
    }
    return arena_cut_locked(arena, set, extent, extent_lead(extent, alignment), pages);
}

/* --- Larger where it is ---------------------------------------------------------------------- */

static struct extent *arena_room_behind_locked(struct arena *arena, struct extent *extent,
                                               size_t pages)
{
    uintptr_t end = extent_end(extent);
    check(lock_is_mine(&arena->lock) && extent_arena(extent) == arena->index);
    if (extent->region != NULL && end - extent->region->start >= extent->region->size) {
        return NULL; /* spares the fault of a page of the page map */
    }
    struct extent *next = pagemap_find((void *)end);
    bool fits = next != pagemap_nothing() && next->arena == arena->index &&
                next->region == extent->region && next->is_huge == extent->is_huge &&
                (extent_state(next) == EXTENT_DIRTY || extent_state(next) == EXTENT_MUZZY ||
                 extent_state(next) == EXTENT_RETAINED) &&
                next->start == end && !next->is_decommitted && !extent_has_fence(next) &&
                extent_pages(next) + extent_pages(extent) >= pages;
    return fits ? next : NULL;
}

static bool arena_expand_locked(struct arena *arena, struct extent *extent, struct extent *next,
                                size_t pages)
{
    check(extent_state(extent) == EXTENT_ACTIVE && pages > extent_pages(extent));
    size_t more = pages - extent_pages(extent);
    check(extent_end(extent) == next->start && extent_pages(next) >= more);
    struct extent_set *set = arena_set_of(arena, next);
    extent_set_remove(set, next);
    if (extent_pages(next) != more) {
        struct extent *rest = extent_split_locked(arena, next, more);
        if (rest == NULL) {
            extent_set_insert(set, next);
            return false;
        }
        extent_set_insert(set, rest);
    }
    if (!arena_may_merge_locked(arena, extent, next)) {
        arena_insert_locked(arena, next, extent_state(next));
        return false;
    }
    arena_note_use_locked(arena, next);
    arena_uncount_active_locked(arena, extent->is_huge, extent_pages(extent));
    extent_merge_locked(arena, extent, next);
    arena_count_active_locked(arena, extent->is_huge, pages);
    check(extent_pages(extent) == pages && arena_counts_match(arena));
    return true;
}

/* --- Validity -------------------------------------------------------------------------------- */

static bool arena_counts_match(struct arena *arena)
{
    size_t pages = atomic_get(&arena->active_pages) + arena->dirty.pages + arena->muzzy.pages +
                   arena->retained.pages;
    return pages <= arena->region_bytes >> os_page_shift;
}

static bool arena_regions_are_valid(struct arena *arena)
{
    size_t bytes = 0;
    size_t active = 0;
    check(lock_is_mine(&arena->lock));
    for (struct region *region = arena->regions; region != NULL; region = region->next) {
        uintptr_t at = region->start;
        while (at < region->start + region->size) {
            struct extent *extent = pagemap_find((void *)at);
            require(extent != pagemap_nothing() && extent->start == at && extent->region == region);
            enum extent_state state = extent_state(extent);
            active += state == EXTENT_ACTIVE || state == EXTENT_CACHED ? extent_pages(extent) : 0;
            at = extent_end(extent);
        }
        bytes += region->size;
    }
    return bytes == arena->region_bytes && active == atomic_get(&arena->active_pages);
}

/* Whether the huge blocks in use are as many as their sizes say. */
static bool arena_huge_counts_match(struct arena *arena)
{
    size_t count = 0;
    for (unsigned size = 0; size < HUGE_SIZES; size++) {
        count += arena->huge_counts[size];
    }
    return count == arena->huge_active_count;
}

static bool arena_is_valid(struct arena *arena)
{
    return arena_counts_match(arena) && arena_huge_counts_match(arena) &&
           extent_set_is_valid(&arena->dirty, EXTENT_DIRTY) &&
           extent_set_is_valid(&arena->huge, EXTENT_DIRTY) &&
           extent_set_is_valid(&arena->muzzy, EXTENT_MUZZY) &&
           extent_set_is_valid(&arena->retained, EXTENT_RETAINED);
}
