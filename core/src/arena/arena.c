/* SPDX-License-Identifier: MIT */
#include "arena.h"

#include "../memory/meta.h"
#include "dense.h"
#include "limit.h"
#include "purge.h"

#include <string.h>

/* Free extents that are looked at for one that can be extended. */
#define EXTEND_TRIES 8u

/* While the process grows, free and resident memory of this share of what is in use may stay, and as much
 * more with each step of patience, see decay.h. */
#define SLACK_SHARE 8u

static struct arena *arena_init(unsigned index)
{
    struct arena *arena = &arenas[index];
    check(index < ARENAS_MAX && index <= arena_count());
    if (!arena->is_ready) {
        lock_init(&arena->lock, LOCK_ARENA);
        lock_init(&arena->growth_lock, LOCK_GROWTH);
        lock_init(&arena->purge_lock, LOCK_PURGE);
        arena->index = (uint16_t)index;
        arena->number = index;
        atomic_set(&arena->dirty_ms, DECAY_AS_OPTION);
        atomic_set(&arena->muzzy_ms, DECAY_AS_OPTION);
        arena->region_next_size = REGION_ALIGNMENT;
        arena->unused_regions = MW_META_GUARD ? NULL : &arena->first_region;
        for (unsigned i = 0; i < FIRST_EXTENTS && !MW_META_GUARD; i++) {
            descriptor_init(arena, &arena->first_extents[i]);
            list_push_front(&arena->descriptors, &arena->first_extents[i].link);
        }
        arena->made_ms = os_now_ms();
        arena->is_ready = true;
        atomic_set_release(&arenas_used, index + 1); /* pairs with arena_count */
    }
    return arena;
}

static size_t arena_slack_pages(struct arena *arena)
{
    size_t shares = 1 + atomic_get(&arena->dirty_decay.patience);
    return atomic_get(&arena->active_pages) / SLACK_SHARE * shares;
}

/* --- Growth ---------------------------------------------------------------------------------- */

/* The size of the next region, as far as nobody needs a larger one. */
static size_t arena_region_size(struct arena *arena)
{
    check(lock_is_mine(&arena->lock));
    size_t most = arena->region_most;
    return most == 0 ? arena->region_next_size
                     : size_min(arena->region_next_size,
                                size_max(most & ~(os_page_size - 1), os_page_size));
}

/* Maps `*wanted` bytes for a region, or as much as can be had of it, at least `size`. With a limit on address space
 * or data less may be had: half, a quarter, and in the end just what is needed. */
static char *region_map(void *hint, size_t size, size_t *wanted)
{
    char *start = os_map_aligned(hint, *wanted, REGION_ALIGNMENT);
    while (start == NULL && *wanted / 2 >= size && *wanted / 2 >= REGION_ALIGNMENT) {
        *wanted = align_up(*wanted / 2, REGION_ALIGNMENT);
        start = os_map_aligned(MW_RANDOM ? hint : NULL, *wanted, REGION_ALIGNMENT);
    }
    if (start == NULL) {
        *wanted = size;
        start = os_map_aligned(NULL, size, os_page_size);
    }
    return start;
}

static bool arena_list_region_locked(struct arena *arena, struct region *described, char *start,
                                     size_t size, bool is_zero)
{
    struct extent *extent = described != NULL ? descriptor_new_locked(arena) : NULL;
    if (extent == NULL) {
        if (described != NULL) {
            described->next = arena->unused_regions;
            arena->unused_regions = described;
        }
        return false;
    }
    *described = (struct region){arena->regions, (uintptr_t)start, size, HUGE_PAGES_AS_SYSTEM, 0};
    arena->regions = described;
    arena->region_bytes += size;
    arena->regions_made++;
    struct extent fresh = {.is_zero = is_zero, .region = described, .slab.stamp = clock_stamp()};
    descriptor_set(extent, (uintptr_t)start, size >> os_page_shift, EXTENT_RETAINED, &fresh);
    arena_insert_locked(arena, extent, EXTENT_RETAINED);
    check_slow(arena_regions_are_valid(arena));
    return true;
}

/* The extent of a new region joins the retained ones. False if there is no memory for what describes it. */
static bool arena_join_region(struct arena *arena, char *start, size_t size)
{
    enum huge_pages huge_pages;
    size_t huge_page_bytes = dense_choose_huge_pages(arena, start, size, &huge_pages);
    bool covered = pagemap_cover((uintptr_t)start, size);
    lock_take(&arena->lock);
    struct region *region = covered ? place_new_region_locked(arena, (uintptr_t)start) : NULL;
    bool is_listed = arena_list_region_locked(arena, region, start, size, true);
    if (is_listed) {
        atomic_set(&region->huge_pages, huge_pages);
        atomic_set(&region->huge_page_bytes, huge_page_bytes);
        arena->region_next_size = size_min(2 * size_max(arena->region_next_size, size), REGION_MAX);
        place_note_mapped_locked(arena, (uintptr_t)start);
    }
    lock_release(&arena->lock);
    return is_listed;
}

/* Maps a region for at least `size` bytes. The kernel does not work under the arena's lock. */
static bool arena_add_region(struct arena *arena, size_t size)
{
    check(lock_is_mine(&arena->growth_lock));
    lock_take(&arena->lock);
    size_t wanted = size_max(arena_region_size(arena), align_up(size, REGION_ALIGNMENT));
    uintptr_t hint = place_of_next_locked(arena);
    lock_release(&arena->lock);
    for (;;) {
        char *start = region_map((void *)hint, size, &wanted);
        if (start == NULL) {
            return false;
        }
        check(wanted >= size && ((uintptr_t)start & (os_page_size - 1)) == 0);
        if (arena_join_region(arena, start, wanted)) {
            return true;
        }
        /* The region itself may have left no room for what describes it. */
        os_unmap(start, wanted);
        if (wanted <= size) {
            return false;
        }
        wanted = wanted / 2 >= REGION_ALIGNMENT ? align_up(wanted / 2, REGION_ALIGNMENT) : size;
        wanted = size_max(wanted, size);
    }
}

static struct extent *arena_map_huge(struct arena *arena, size_t pages, size_t alignment)
{
    size_t size = pages << os_page_shift;
    struct fence fence;
    char *start = fence_map(size, alignment, &fence);
    if (start == NULL) {
        return NULL;
    }
    bool covered = pagemap_cover((uintptr_t)start, size);
    lock_take(&arena->lock);
    struct extent *extent = covered ? descriptor_new_locked(arena) : NULL;
    if (extent != NULL) {
        struct extent fresh = {.is_huge = true, .is_zero = true};
        descriptor_set(extent, (uintptr_t)start, pages, EXTENT_ACTIVE, &fresh);
        if (MW_FENCES) {
            *extent_fence(extent) = fence;
        }
        arena_count_active_locked(arena, true, pages);
        arena_note_new_huge_locked(arena, pages);
    }
    lock_release(&arena->lock);
    if (extent == NULL) {
        fence_unmap(start, size, &fence);
    }
    return extent;
}

/* --- Allocation ------------------------------------------------------------------------------ */

/* Whether an extent is what somebody who asked for so much gets; true if there is none. */
static bool extent_serves(struct extent *extent, size_t pages, size_t alignment)
{
    return extent == NULL ||
           (extent_state(extent) == EXTENT_ACTIVE && extent_pages(extent) == pages &&
            (extent->start & (alignment - 1)) == 0 && !extent_is_slab(extent));
}

static bool is_huge(size_t pages)
{
    return pages << os_page_shift > HUGE_ABOVE;
}

static bool arena_has_huge_room(struct arena *arena, size_t pages)
{
    lock_take(&arena->lock);
    struct extent *extent = extent_set_fit(&arena->huge, pages);
    lock_release(&arena->lock);
    check(extent == NULL || extent_pages(extent) >= pages);
    return extent != NULL;
}

static struct extent *arena_alloc_dirty(struct arena *arena, size_t pages, size_t alignment)
{
    lock_take(&arena->lock);
    struct extent *extent = NULL;
    if (!is_huge(pages)) {
        extent = arena_take_locked(arena, &arena->dirty, pages, alignment);
    }
    if (!MW_FENCES && extent == NULL && pages << os_page_shift >= LEFT_BY_REALLOC_MIN) {
        extent = arena_take_locked(arena, &arena->huge, pages, alignment);
    }
    check_slow(arena_is_valid(arena));
    lock_release(&arena->lock);
    check(extent_serves(extent, pages, alignment));
    return extent;
}

/* arena_extend_dirty for one extent, behind its first `lead` pages. */
static struct extent *arena_extend_locked(struct arena *arena, struct extent *extent, size_t lead,
                                          size_t pages, size_t *grown)
{
    check(extent_state(extent) == EXTENT_DIRTY && lead < extent_pages(extent));
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
        arena_uncount_active_locked(arena, extent->is_huge, extent_pages(extent));
        arena_insert_locked(arena, extent, EXTENT_DIRTY);
        return NULL;
    }
    *grown = pages - have;
    check(extent_pages(extent) == pages && *grown <= pages / 2 + 1);
    return extent;
}

/* An extent that begins in a dirty one, of which it has at least half its pages; the rest comes
 * from the free extent behind it, so that less has to be faulted in. A dirty extent may also be
 * large enough by itself, where the search by size did not count on its alignment. Writes how many
 * pages were missing. NULL if none of the youngest dirty extents serves. */
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
    check(extent_serves(found, pages, alignment));
    return found;
}

static bool arena_remap(struct arena *arena, struct extent *extent, size_t pages);

/* A free huge block of at least half the size, made larger by moving its mapping; one with guards in builds
 * that make them. Writes by how much. NULL if there is none. */
static struct extent *arena_grow_dirty(struct arena *arena, size_t pages, size_t *grown)
{
    lock_take(&arena->lock);
    uint64_t filled = atomic_get(&arena->huge.filled);
    struct extent *extent = filled != 0 ? arena->huge.bins[floor_log2(filled)] : NULL;
    bool serves = extent != NULL && extent_pages(extent) >= pages / 2 &&
                  extent_pages(extent) < pages && extent_has_fence(extent) == MW_FENCES;
    check(extent == NULL || (extent->is_huge && extent_state(extent) == EXTENT_DIRTY));
    if (serves) {
        arena_take_huge_locked(arena, extent);
    }
    lock_release(&arena->lock);
    if (!serves) {
        return NULL;
    }
    size_t old_pages = extent_pages(extent);
    if (!arena_remap(arena, extent, pages)) {
        arena_free(arena, extent);
        return NULL;
    }
    *grown = pages - old_pages;
    check(extent_serves(extent, pages, os_page_size));
    return extent;
}

/* Of its regions. */
static struct extent *arena_take_free(struct arena *arena, size_t pages, size_t alignment)
{
    lock_take(&arena->lock);
    struct extent *extent = arena_take_locked(arena, &arena->muzzy, pages, alignment);
    if (extent == NULL) {
        extent = arena_take_locked(arena, &arena->retained, pages, alignment);
    }
    lock_release(&arena->lock);
    return extent;
}

/* With memory that is not resident, wholly or in part. */
static struct extent *arena_alloc_fresh(struct arena *arena, size_t pages, size_t alignment)
{
    struct extent *extent = NULL;
    size_t grown = pages;
    /* A region for an alignment larger than its own would be mostly holes. */
    bool is_of_region = !is_huge(pages) && alignment <= REGION_ALIGNMENT;
    if (is_of_region) {
        extent = arena_extend_dirty(arena, pages, alignment, &grown);
    } else if (is_huge(pages) && alignment == os_page_size) {
        extent = arena_grow_dirty(arena, pages, &grown);
    }
    if (grown != 0) {
        arena_note_growth(arena, grown, arena_slack_pages(arena));
    }
    if (MW_FENCES && grown != 0) {
        arena_makes_room(arena, grown);
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
    extent = arena_take_free(arena, pages, alignment);
    if (extent != NULL) {
        return extent;
    }
    lock_take(&arena->growth_lock);
    do { /* other threads may take from a new region first, but each round adds one or ends */
        extent = arena_take_free(arena, pages, alignment);
    } while (extent == NULL && arena_add_region(arena, needed));
    lock_release(&arena->growth_lock);
    return extent;
}

static struct extent *arena_alloc(struct arena *arena, size_t pages, size_t alignment)
{
    check(pages > 0 && alignment >= os_page_size && is_power_of_two(alignment));
    if (pages > UINT32_MAX) {
        return NULL;
    }
    struct extent *extent = arena_alloc_dirty(arena, pages, alignment);
    if (extent == NULL && limit_enter(pages)) {
        extent = arena_alloc_fresh(arena, pages, alignment);
        limit_leave();
    }
    check(extent_serves(extent, pages, alignment));
    return extent;
}

static struct extent *arenas_alloc_dirty(struct arena *first, size_t pages, size_t alignment)
{
    struct extent *extent = NULL;
    unsigned count = arena_count();
    for (unsigned i = 0; i < count && extent == NULL; i++) {
        struct arena *arena = arena_at((first->index + i) % count);
        if (i == 0 || extent_set_may_fit(&arena->dirty, pages) ||
            extent_set_may_fit(&arena->huge, pages)) {
            extent = arena_alloc_dirty(arena, pages, alignment);
        }
    }
    return extent;
}

static struct extent *arenas_alloc(struct arena *first, size_t pages, size_t alignment)
{
    struct extent *extent = NULL;
    unsigned count = arena_count();
    for (unsigned i = 0; i < count && extent == NULL; i++) {
        extent = arena_alloc(arena_at((first->index + i) % count), pages, alignment);
    }
    check(extent_serves(extent, pages, alignment));
    return extent;
}

/* --- Return ---------------------------------------------------------------------------------- */

static void arena_free_locked(struct arena *arena, struct extent *extent)
{
    check(extent_arena(extent) == arena->index && lock_is_mine(&arena->lock));
    check(extent_state(extent) == EXTENT_ACTIVE || extent_state(extent) == EXTENT_CACHED);
    arena_uncount_active_locked(arena, extent->is_huge, extent_pages(extent));
    extent->is_zero = false;
    arena_insert_locked(arena, extent, EXTENT_DIRTY);
    check_slow(arena_is_valid(arena));
}

static void arena_purge_at_once(struct arena *arena)
{
    if (!arena->is_explicit && arena_dirty_decay_ms(arena) == 0) {
        arena_purge(arena, 0);
    }
}

static void arena_free(struct arena *arena, struct extent *extent)
{
    check(extent_state(extent) == EXTENT_ACTIVE); /* a cached one is in some heap's stack */
    extent->slab.stamp = clock_stamp();
    lock_take(&arena->lock);
    arena_free_locked(arena, extent);
    lock_release(&arena->lock);
    arena_purge_at_once(arena);
}

static size_t arena_free_chain(struct extent *chain)
{
    size_t most = 0;
    while (chain != NULL) {
        struct arena *arena = arena_of(chain);
        lock_take(&arena->lock);
        while (chain != NULL && arena_of(chain) == arena) {
            struct extent *next = chain->slab.below;
            arena_free_locked(arena, chain);
            chain = next;
        }
        most = size_max(most, arena_dirty_pages_locked(arena));
        lock_release(&arena->lock);
        arena_purge_at_once(arena);
    }
    return most;
}

/* --- Resizing -------------------------------------------------------------------------------- */

static bool arena_try_expand(struct arena *arena, struct extent *extent, size_t pages)
{
    check(extent_state(extent) == EXTENT_ACTIVE && !extent_is_slab(extent));
    if (!limit_enter(pages - extent_pages(extent))) {
        return false;
    }
    lock_take(&arena->lock);
    struct extent *next = arena_room_behind_locked(arena, extent, pages);
    bool done = next != NULL && arena_expand_locked(arena, extent, next, pages);
    check_slow(arena_is_valid(arena) && arena_regions_are_valid(arena));
    lock_release(&arena->lock);
    limit_leave();
    return done;
}

static void arena_shrink(struct arena *arena, struct extent *extent, size_t pages)
{
    check(pages > 0 && pages < extent_pages(extent));
    check(extent_state(extent) == EXTENT_ACTIVE && !extent_is_slab(extent));
    lock_take(&arena->lock);
    size_t old_pages = extent_pages(extent);
    struct extent *rest = extent_split_locked(arena, extent, pages);
    if (rest != NULL) {
        rest->is_zero = false;
        rest->slab.stamp = clock_stamp();
        arena_uncount_active_locked(arena, extent->is_huge, old_pages);
        arena_count_active_locked(arena, extent->is_huge, pages);
        arena_insert_locked(arena, rest, EXTENT_DIRTY);
    }
    check_slow(arena_is_valid(arena) && arena_regions_are_valid(arena));
    lock_release(&arena->lock);
    arena_purge_at_once(arena);
}

/* Makes an active extent describe other pages, which it owns alone and which are huge. */
static void arena_relocate_locked(struct arena *arena, struct extent *extent, uintptr_t start,
                                  size_t pages)
{
    arena_uncount_active_locked(arena, extent->is_huge, extent_pages(extent));
    check(extent_state(extent) == EXTENT_ACTIVE && !extent_is_slab(extent));
    extent->start = start;
    extent->is_huge = true;
    extent->region = NULL;
    atomic_set(&extent->pages, (uint32_t)pages);
    extent_map_ends(extent);
    arena_count_active_locked(arena, true, pages);
    check_slow(extent_is_mapped_by_ends(extent));
}

static bool arena_remap(struct arena *arena, struct extent *extent, size_t pages)
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
    char *moved = fence_remap(extent, size);
    if (moved == NULL) {
        extent_map_ends(extent);
        pagemap_reserve_drop(&reserve);
        return false;
    }
    pagemap_cover_reserved((uintptr_t)moved, size, &reserve);
    pagemap_reserve_drop(&reserve);
    lock_take(&arena->lock);
    arena_relocate_locked(arena, extent, (uintptr_t)moved, pages);
    lock_release(&arena->lock);
    return true;
}

/* Moves the pages of an extent into a mapping of `size`, in two steps: first out of the region,
 * then larger. NULL if the kernel cannot; then they are where they were. */
static char *pages_move_out(struct extent *extent, size_t size)
{
    size_t old_size = extent_size(extent);
    char *moved = os_move_pages((void *)extent->start, old_size);
    char *grown = moved != NULL ? os_remap(moved, old_size, size) : NULL;
    if (moved != NULL && grown == NULL) {
        bytes_copy((void *)extent->start, moved, old_size);
        if (!os_unmap(moved, old_size)) {
            os_purge(moved, old_size);
        }
    }
    return grown;
}

static bool arena_move_out(struct arena *arena, struct extent *extent, size_t pages)
{
    check(!extent->is_huge && pages > extent_pages(extent));
    size_t size = pages << os_page_shift;
    lock_take(&arena->lock);
    struct extent *place = descriptor_new_locked(arena);
    lock_release(&arena->lock);
    struct pagemap_reserve reserve;
    bool is_reserved = place != NULL && pagemap_reserve_take(&reserve, size);
    char *moved = is_reserved ? pages_move_out(extent, size) : NULL;
    if (moved == NULL) {
        if (is_reserved) {
            pagemap_reserve_drop(&reserve);
        }
        if (place != NULL) {
            lock_take(&arena->lock);
            descriptor_free_locked(arena, place);
            lock_release(&arena->lock);
        }
        return false;
    }
    struct extent old = *extent;
    size_t old_pages = extent_pages(extent);
    pagemap_cover_reserved((uintptr_t)moved, size, &reserve);
    pagemap_reserve_drop(&reserve);
    /* Both at once: whoever walks the region must never find a place that nothing describes. */
    struct extent left = {.region = old.region, .is_zero = true, .slab.stamp = clock_stamp()};
    lock_take(&arena->lock);
    arena_relocate_locked(arena, extent, (uintptr_t)moved, pages);
    descriptor_set(place, old.start, old_pages, EXTENT_RETAINED, &left);
    arena_insert_locked(arena, place, EXTENT_RETAINED);
    check_slow(arena_is_valid(arena) && arena_regions_are_valid(arena));
    lock_release(&arena->lock);
    return true;
}

static bool arena_try_move(struct arena *arena, struct extent *extent, size_t pages)
{
    size_t grown = pages - extent_pages(extent);
    if (!limit_enter(grown)) {
        return false;
    }
    bool done =
        extent->is_huge ? arena_remap(arena, extent, pages) : arena_move_out(arena, extent, pages);
    limit_leave();
    if (done) {
        arena_note_growth(arena, grown, arena_slack_pages(arena));
    }
    return done;
}
