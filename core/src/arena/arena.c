/* SPDX-License-Identifier: MIT */
#include "arena.h"

#include "../memory/meta.h"

/* Free extents that are looked at for one that can be extended. */
#define EXTEND_TRIES 8u

static struct arena arenas[ARENAS_MAX] IN_SECTION(arenas) __attribute__((aligned(CACHE_LINE)));
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

static struct arena *arena_of(struct extent *extent)
{
    return &arenas[extent->arena];
}

static void descriptor_init(struct arena *arena, struct extent *extent)
{
    extent->arena = arena->index;
    atomic_set(&extent->slab.owner, OWNER_NOT_A_SLAB);
}

/* Called in the order of the indices, under LOCK_HEAPS. */
static struct arena *arena_init(unsigned index)
{
    struct arena *arena = &arenas[index];
    if (!arena->is_ready) {
        lock_init(&arena->lock, LOCK_ARENA);
        lock_init(&arena->purge_lock, LOCK_PURGE);
        arena->index = (uint8_t)index;
        arena->region_next_size = REGION_ALIGNMENT;
        arena->unused_regions = MW_META_GUARD ? NULL : &arena->first_region;
        for (unsigned i = 0; i < FIRST_EXTENTS && !MW_META_GUARD; i++) {
            descriptor_init(arena, &arena->first_extents[i]);
            list_push_front(&arena->descriptors, &arena->first_extents[i].link);
        }
        arena->is_ready = true;
        atomic_set_release(&arenas_used, index + 1); /* pairs with arena_count */
    }
    return arena;
}

static struct extent_set *arena_set_of(struct arena *arena, struct extent *extent)
{
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

static struct extent *descriptor_new_locked(struct arena *arena)
{
    struct extent *extent;
    if (!list_is_empty(&arena->descriptors)) {
        extent = container_of(arena->descriptors.next, struct extent, link);
        list_remove(&extent->link);
    } else {
        extent = meta_alloc(sizeof *extent);
        if (extent == NULL) {
            return NULL;
        }
        descriptor_init(arena, extent);
    }
    check(extent_state(extent) == EXTENT_UNUSED && extent->arena == arena->index);
    return extent;
}

static void descriptor_free_locked(struct arena *arena, struct extent *extent)
{
    atomic_set(&extent->state, EXTENT_UNUSED);
    list_push_front(&arena->descriptors, &extent->link);
}

/* Writes a descriptor and the page map. */
static void descriptor_set(struct extent *extent, uintptr_t start, size_t pages,
                           enum extent_state state, const struct extent *like)
{
    extent->start = start;
    atomic_set(&extent->pages, (uint32_t)pages);
    extent->is_huge = like->is_huge;
    extent->is_zero = like->is_zero;
    extent->region = like->region;
    extent->stamp = like->stamp;
    atomic_set(&extent->state, (uint8_t)state);
    extent_map_ends(extent);
}

/* Cuts what is behind the first `pages` off into a new extent of the same kind, which is in no set.
 * NULL if there is no descriptor for it. */
static struct extent *extent_split_locked(struct arena *arena, struct extent *extent, size_t pages)
{
    check(pages > 0 && pages < extent_pages(extent));
    struct extent *rest = descriptor_new_locked(arena);
    if (rest == NULL) {
        return NULL;
    }
    size_t rest_pages = extent_pages(extent) - pages;
    atomic_set(&extent->pages, (uint32_t)pages);
    descriptor_set(rest, extent_end(extent), rest_pages, extent_state(extent), extent);
    extent_map_ends(extent);
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
    bool fits = other != pagemap_nothing() && other->arena == arena->index &&
                extent_state(other) == extent_state(extent) && other->is_huge == extent->is_huge &&
                other->region == region && extent_pages(other) + extent_pages(extent) <= UINT32_MAX;
    return fits ? other : NULL;
}

/* `low` swallows `high`, which lies right behind it; both are in no set. */
static void extent_merge_locked(struct arena *arena, struct extent *low, struct extent *high)
{
    check(extent_end(low) == high->start);
    size_t pages = extent_pages(low) + extent_pages(high);
    pagemap_set(high->start - GRANULE, NULL);
    pagemap_set(high->start, NULL);
    low->is_zero &= high->is_zero;
    low->stamp = low->stamp > high->stamp ? low->stamp : high->stamp;
    descriptor_free_locked(arena, high);
    atomic_set(&low->pages, (uint32_t)pages);
    extent_map_ends(low);
}

/* Puts an extent among the free ones of a state, merged with its neighbours. */
static void arena_insert_locked(struct arena *arena, struct extent *extent, enum extent_state state)
{
    atomic_set(&extent->state, (uint8_t)state);
    struct extent *high = arena_mergeable_locked(arena, extent, extent_end(extent));
    if (high != NULL) {
        extent_set_remove(arena_set_of(arena, high), high);
        extent_merge_locked(arena, extent, high);
    }
    struct extent *low = arena_mergeable_locked(arena, extent, extent->start - GRANULE);
    if (low != NULL) {
        extent_set_remove(arena_set_of(arena, low), low);
        extent_merge_locked(arena, low, extent);
        extent = low;
    }
    extent_set_insert(arena_set_of(arena, extent), extent);
}

static void arena_count_active_locked(struct arena *arena, bool is_huge, size_t pages)
{
    if (is_huge) {
        arena->huge_active_pages += pages;
        arena->huge_active_count++;
    } else {
        arena->active_pages += pages;
    }
}

static void arena_uncount_active_locked(struct arena *arena, struct extent *extent)
{
    if (extent->is_huge) {
        arena->huge_active_pages -= extent_pages(extent);
        arena->huge_active_count--;
    } else {
        arena->active_pages -= extent_pages(extent);
    }
}

/* Cuts `pages` out of a free extent, behind its first `lead`; the rest stays in its set. NULL if
 * there is no descriptor for what is left over. */
static struct extent *arena_cut_locked(struct arena *arena, struct extent_set *set,
                                       struct extent *extent, size_t lead, size_t pages)
{
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
    arena_count_active_locked(arena, extent->is_huge, pages);
    atomic_set(&extent->state, EXTENT_ACTIVE);
    return extent;
}

/* Pages before the first multiple of `alignment`. */
static size_t extent_lead(struct extent *extent, size_t alignment)
{
    return (align_up(extent->start, alignment) - extent->start) >> os_page_shift;
}

/* Takes the best fit out of a set and cuts it to size. NULL if none fits, or if there is no
 * descriptor for what is left over. */
static struct extent *arena_take_locked(struct arena *arena, struct extent_set *set, size_t pages,
                                        size_t alignment)
{
    size_t slack = (alignment >> os_page_shift) - 1;
    struct extent *extent = extent_set_fit(set, pages + slack);
    if (extent == NULL) {
        return NULL;
    }
    return arena_cut_locked(arena, set, extent, extent_lead(extent, alignment), pages);
}

/* --- Larger where it is ---------------------------------------------------------------------- */

/* The free extent right behind `extent`, if both together have at least `pages`; NULL else. */
static struct extent *arena_room_behind_locked(struct arena *arena, struct extent *extent,
                                               size_t pages)
{
    uintptr_t end = extent_end(extent);
    if (extent->region != NULL && end - extent->region->start >= extent->region->size) {
        return NULL; /* spares the fault of a page of the page map */
    }
    struct extent *next = pagemap_find((void *)end);
    bool fits = next != pagemap_nothing() && next->arena == arena->index &&
                next->region == extent->region && next->is_huge == extent->is_huge &&
                (extent_state(next) == EXTENT_DIRTY || extent_state(next) == EXTENT_MUZZY ||
                 extent_state(next) == EXTENT_RETAINED) &&
                next->start == end && extent_pages(next) + extent_pages(extent) >= pages;
    return fits ? next : NULL;
}

/* Makes an active extent larger at the expense of `next`, which lies behind it. */
static bool arena_expand_locked(struct arena *arena, struct extent *extent, struct extent *next,
                                size_t pages)
{
    size_t more = pages - extent_pages(extent);
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
    arena_uncount_active_locked(arena, extent);
    extent_merge_locked(arena, extent, next);
    arena_count_active_locked(arena, extent->is_huge, pages);
    return true;
}

static bool arena_try_expand(struct arena *arena, struct extent *extent, size_t pages)
{
    lock_take(&arena->lock);
    struct extent *next = arena_room_behind_locked(arena, extent, pages);
    bool done = next != NULL && arena_expand_locked(arena, extent, next, pages);
    lock_release(&arena->lock);
    return done;
}

/* --- Growth ---------------------------------------------------------------------------------- */

static struct region *region_new_locked(struct arena *arena)
{
    struct region *region = arena->unused_regions;
    if (region == NULL) {
        return meta_alloc(sizeof *region);
    }
    arena->unused_regions = region->next;
    return region;
}

/* Maps a region for at least `size` bytes; its extent joins the retained ones. Called without the
 * lock, so that the kernel does not work under it. */
static bool arena_add_region(struct arena *arena, size_t size)
{
    lock_take(&arena->lock);
    size_t wanted = size_max(arena->region_next_size, align_up(size, REGION_ALIGNMENT));
    uintptr_t hint = arena->region_hint;
    lock_release(&arena->lock);

    /* With a limit on address space less may be had: half, a quarter, and in the end just what is
     * needed. */
    char *start = os_map_aligned((void *)hint, wanted, REGION_ALIGNMENT);
    while (start == NULL && wanted / 2 >= size && wanted / 2 >= REGION_ALIGNMENT) {
        wanted = align_up(wanted / 2, REGION_ALIGNMENT);
        start = os_map_aligned(NULL, wanted, REGION_ALIGNMENT);
    }
    if (start == NULL) {
        wanted = size;
        start = os_map(NULL, wanted);
    }
    if (start == NULL) {
        return false;
    }

    bool covered = pagemap_cover((uintptr_t)start, wanted);
    lock_take(&arena->lock);
    struct region *region = covered ? region_new_locked(arena) : NULL;
    struct extent *extent = region != NULL ? descriptor_new_locked(arena) : NULL;
    if (extent == NULL) {
        if (region != NULL) {
            region->next = arena->unused_regions;
            arena->unused_regions = region;
        }
        lock_release(&arena->lock);
        os_unmap(start, wanted);
        return false;
    }
    *region = (struct region){arena->regions, (uintptr_t)start, wanted};
    arena->regions = region;
    arena->region_bytes += wanted;
    arena->region_next_size = size_min(2 * size_max(arena->region_next_size, wanted), REGION_MAX);
    arena->region_hint = (uintptr_t)start - arena->region_next_size;
    struct extent fresh = {.is_zero = true, .region = region, .stamp = arena->step};
    descriptor_set(extent, region->start, wanted >> os_page_shift, EXTENT_RETAINED, &fresh);
    arena_insert_locked(arena, extent, EXTENT_RETAINED);
    lock_release(&arena->lock);
    return true;
}

static struct extent *arena_map_huge(struct arena *arena, size_t pages, size_t alignment)
{
    size_t size = pages << os_page_shift;
    char *start = os_map_aligned(NULL, size, alignment);
    if (start == NULL) {
        return NULL;
    }
    bool covered = pagemap_cover((uintptr_t)start, size);
    lock_take(&arena->lock);
    struct extent *extent = covered ? descriptor_new_locked(arena) : NULL;
    if (extent != NULL) {
        struct extent fresh = {.is_huge = true, .is_zero = true};
        descriptor_set(extent, (uintptr_t)start, pages, EXTENT_ACTIVE, &fresh);
        arena_count_active_locked(arena, true, pages);
    }
    lock_release(&arena->lock);
    if (extent == NULL) {
        os_unmap(start, size);
    }
    return extent;
}

/* --- Allocation ------------------------------------------------------------------------------ */

static bool is_huge(size_t pages)
{
    return pages << os_page_shift >= HUGE_MIN;
}

static struct extent *arena_alloc_dirty(struct arena *arena, size_t pages, size_t alignment)
{
    lock_take(&arena->lock);
    struct extent_set *set = is_huge(pages) ? &arena->huge : &arena->dirty;
    struct extent *extent = arena_take_locked(arena, set, pages, alignment);
    lock_release(&arena->lock);
    return extent;
}

/* arena_extend_dirty for one extent, behind its first `lead` pages. */
static struct extent *arena_extend_locked(struct arena *arena, struct extent *extent, size_t lead,
                                          size_t pages, size_t *grown)
{
    size_t have = size_min(extent_pages(extent) - lead, pages);
    struct extent *next = NULL;
    if (have < pages) {
        /* With less, a block that is mostly known to be zero would have to be cleared. */
        next = have >= pages / 2 ? arena_room_behind_locked(arena, extent, lead + pages) : NULL;
        if (next == NULL) {
            return NULL;
        }
    }
    extent = arena_cut_locked(arena, &arena->dirty, extent, lead, have);
    if (extent == NULL) {
        return NULL;
    }
    if (next != NULL && !arena_expand_locked(arena, extent, next, pages)) {
        arena_uncount_active_locked(arena, extent);
        arena_insert_locked(arena, extent, EXTENT_DIRTY);
        return NULL;
    }
    *grown = pages - have;
    return extent;
}

/* Free and resident memory that has at least half of `pages`, with as much as is missing of what is
 * free behind it, so that not all is faulted in elsewhere; also what is large enough just where it
 * is. Writes how many pages were missing. NULL if none of the youngest serves. */
static struct extent *arena_extend_dirty(struct arena *arena, size_t pages, size_t alignment,
                                         size_t *grown)
{
    struct extent *found = NULL;
    lock_take(&arena->lock);
    struct link *head = &arena->dirty.lru;
    struct link *at = list_last(head);
    for (unsigned tries = 0; tries < EXTEND_TRIES && at != head && found == NULL; tries++) {
        struct extent *extent = container_of(at, struct extent, link);
        at = at->prev;
        size_t lead = extent_lead(extent, alignment);
        if (lead < extent_pages(extent)) {
            found = arena_extend_locked(arena, extent, lead, pages, grown);
        }
    }
    lock_release(&arena->lock);
    return found;
}

/* A free huge block of at least half the size, made larger by moving its mapping. Writes by how
 * much. NULL if there is none. */
static struct extent *arena_grow_dirty(struct arena *arena, size_t pages, size_t *grown)
{
    lock_take(&arena->lock);
    uint64_t filled = arena->huge.filled;
    struct extent *extent = filled != 0 ? arena->huge.bins[floor_log2(filled)] : NULL;
    bool serves =
        extent != NULL && extent_pages(extent) >= pages / 2 && extent_pages(extent) < pages;
    if (serves) {
        extent_set_remove(&arena->huge, extent);
        arena_count_active_locked(arena, true, extent_pages(extent));
        atomic_set(&extent->state, EXTENT_ACTIVE);
    }
    lock_release(&arena->lock);
    if (!serves) {
        return NULL;
    }
    size_t old_pages = extent_pages(extent);
    if (!arena_try_remap(arena, extent, pages)) {
        arena_free(arena, extent);
        return NULL;
    }
    *grown = pages - old_pages;
    return extent;
}

static struct extent *arena_alloc(struct arena *arena, size_t pages, size_t alignment)
{
    check(pages > 0 && alignment >= os_page_size && is_power_of_two(alignment));
    if (pages > UINT32_MAX) {
        return NULL;
    }
    struct extent *extent = arena_alloc_dirty(arena, pages, alignment);
    size_t grown = pages;
    /* A region for an alignment larger than its own would be mostly holes. */
    bool is_of_region = !is_huge(pages) && alignment <= REGION_ALIGNMENT;
    if (extent != NULL) {
        return extent;
    }
    if (is_of_region) {
        extent = arena_extend_dirty(arena, pages, alignment, &grown);
    } else if (is_huge(pages) && alignment == os_page_size) {
        extent = arena_grow_dirty(arena, pages, &grown);
    }
    if (grown != 0) {
        arena_note_growth(arena, grown);
    }
    if (extent != NULL) {
        return extent;
    }
    if (!is_of_region) {
        return arena_map_huge(arena, pages, alignment);
    }
    size_t needed = (pages << os_page_shift) + alignment - os_page_size;
    if (needed < alignment) {
        return NULL;
    }
    for (;;) {
        lock_take(&arena->lock);
        extent = arena_take_locked(arena, &arena->muzzy, pages, alignment);
        if (extent == NULL) {
            extent = arena_take_locked(arena, &arena->retained, pages, alignment);
        }
        lock_release(&arena->lock);
        /* Once more after growth: other threads may take from the new region first, but each round
         * adds one or ends. */
        if (extent != NULL || !arena_add_region(arena, needed)) {
            return extent;
        }
    }
}

static void arena_free(struct arena *arena, struct extent *extent)
{
    check(extent->arena == arena->index);
    lock_take(&arena->lock);
    arena_uncount_active_locked(arena, extent);
    extent->is_zero = false;
    extent->stamp = arena->step;
    arena_insert_locked(arena, extent, EXTENT_DIRTY);
    check_slow(arena_is_valid(arena));
    lock_release(&arena->lock);
    if (option(OPTION_dirty_decay_ms) == 0) {
        arena_purge(arena, 0);
    }
}

static void arena_shrink(struct arena *arena, struct extent *extent, size_t pages)
{
    check(pages > 0 && pages < extent_pages(extent));
    lock_take(&arena->lock);
    size_t old_pages = extent_pages(extent);
    struct extent *rest = extent_split_locked(arena, extent, pages);
    if (rest != NULL) {
        rest->is_zero = false;
        rest->stamp = arena->step;
        if (extent->is_huge) {
            arena->huge_active_pages -= old_pages - pages;
        } else {
            arena->active_pages -= old_pages - pages;
        }
        arena_insert_locked(arena, rest, EXTENT_DIRTY);
    }
    lock_release(&arena->lock);
    if (rest != NULL && option(OPTION_dirty_decay_ms) == 0) {
        arena_purge(arena, 0);
    }
}

static bool arena_try_remap(struct arena *arena, struct extent *extent, size_t pages)
{
    check(extent->is_huge && pages > extent_pages(extent));
    size_t size = pages << os_page_shift;
    struct pagemap_reserve reserve;
    if (!pagemap_reserve_take(&reserve, size)) {
        return false;
    }
    /* The kernel may give the old place to anybody as soon as it is free, so its words go first.
     * The extent is the caller's: nobody else asks for it meanwhile. */
    extent_unmap_ends(extent);
    char *moved = os_remap((void *)extent->start, extent_size(extent), size);
    if (moved == NULL) {
        extent_map_ends(extent);
        pagemap_reserve_drop(&reserve);
        return false;
    }
    pagemap_cover_reserved((uintptr_t)moved, size, &reserve);
    pagemap_reserve_drop(&reserve);
    lock_take(&arena->lock);
    arena_uncount_active_locked(arena, extent);
    extent->start = (uintptr_t)moved;
    atomic_set(&extent->pages, (uint32_t)pages);
    extent_map_ends(extent);
    arena_count_active_locked(arena, true, pages);
    lock_release(&arena->lock);
    return true;
}

/* --- Validity -------------------------------------------------------------------------------- */

static bool extent_set_is_valid(struct extent_set *set, enum extent_state state)
{
    size_t pages = 0;
    size_t count = 0;
    for (struct link *at = list_first(&set->lru); at != &set->lru; at = at->next) {
        struct extent *extent = container_of(at, struct extent, link);
        require(extent_state(extent) == state);
        require(pagemap_find((void *)extent->start) == extent);
        require(pagemap_find((void *)(extent_end(extent) - GRANULE)) == extent);
        pages += extent_pages(extent);
        count++;
    }
    return pages == set->pages && count == set->count;
}

static bool arena_is_valid(struct arena *arena)
{
    return extent_set_is_valid(&arena->dirty, EXTENT_DIRTY) &&
           extent_set_is_valid(&arena->huge, EXTENT_DIRTY) &&
           extent_set_is_valid(&arena->muzzy, EXTENT_MUZZY) &&
           extent_set_is_valid(&arena->retained, EXTENT_RETAINED);
}
