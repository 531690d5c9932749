/* SPDX-License-Identifier: MIT */
#include "explicit.h"

#include "../memory/meta.h"
#include "limit.h"
#include "purge.h"

#include <string.h>

static struct lock table_lock = LOCK_INITIALIZER(LOCK_TABLE);

/* --- Numbers ---------------------------------------------------------------------------------- */

static unsigned arena_numbers(unsigned shared)
{
    unsigned count = atomic_get_acquire(&explicit_count); /* pairs with explicit_new */
    return count == 0 ? shared : explicit_arenas[0]->number + count;
}

static struct arena *arena_numbered(unsigned number)
{
    unsigned count = atomic_get_acquire(&explicit_count); /* pairs with explicit_new */
    unsigned first = count != 0 ? explicit_arenas[0]->number : UINT_MAX;
    if (number < first) {
        return number < arena_count() ? arena_at(number) : NULL;
    }
    struct arena *arena = number - first < count ? explicit_arenas[number - first] : NULL;
    /* pairs with direct_create_arena */
    return arena != NULL && atomic_get_acquire(&arena->is_in_use) ? arena : NULL;
}

/* A structure that describes nothing. An arena without hooks may find regions in it that the kernel had
 * no room to take back. */
static struct arena *explicit_unused(bool has_hooks)
{
    unsigned count = atomic_get(&explicit_count);
    for (unsigned i = 0; i < count; i++) {
        bool is_in_use = atomic_get(&explicit_arenas[i]->is_in_use);
        if (!is_in_use && (!has_hooks || explicit_arenas[i]->regions == NULL)) {
            return explicit_arenas[i];
        }
    }
    return NULL;
}

static struct arena *explicit_new(unsigned shared, bool has_hooks)
{
    check(lock_is_mine(&table_lock));
    struct arena *arena = explicit_unused(has_hooks);
    unsigned count = atomic_get(&explicit_count);
    if (arena == NULL && arena_numbers(shared) < ARENA_NUMBERS) {
        arena = meta_alloc(sizeof *arena);
        if (arena == NULL) {
            return NULL;
        }
        lock_init(&arena->lock, LOCK_ARENA);
        lock_init(&arena->growth_lock, LOCK_GROWTH);
        lock_init(&arena->purge_lock, LOCK_PURGE);
        arena->index = (uint16_t)(ARENAS_MAX + count);
        arena->number = arena_numbers(shared);
        arena->is_ready = true;
        arena->is_explicit = true;
        explicit_arenas[count] = arena;
        atomic_set_release(&explicit_count, count + 1); /* pairs with who walks over all arenas */
    }
    if (arena != NULL) {
        lock_take(&arena->lock);
        atomic_set(&arena->dirty_ms, DECAY_AS_OPTION);
        atomic_set(&arena->muzzy_ms, DECAY_AS_OPTION);
        arena->region_next_size = REGION_ALIGNMENT;
        arena->region_most = 0;
        arena->told_oversize = 0;
        arena->made_ms = os_now_ms();
        arena->name[0] = 0;
        lock_release(&arena->lock);
    }
    return arena;
}

/* --- Names ----------------------------------------------------------------------------------- */

/* "auto_3" or "manual_17", as jemalloc calls them. */
static void name_of_number(const char *kind, unsigned number, char *name)
{
    size_t length = strlen(kind);
    memcpy(name, kind, length);
    unsigned scale = 1;
    while (number / scale >= 10) {
        scale *= 10;
    }
    for (; scale != 0; scale /= 10) {
        name[length++] = (char)('0' + number / scale % 10);
    }
    name[length] = 0;
}

static void arena_get_name(struct arena *arena, char *name)
{
    lock_take(&arena->lock);
    memcpy(name, arena->name, ARENA_NAME_SIZE);
    lock_release(&arena->lock);
    if (name[0] == 0) {
        name_of_number(arena->is_explicit ? "manual_" : "auto_", arena->number, name);
    }
}

/* --- Growth ----------------------------------------------------------------------------------- */

/* Lists a region that consists of one extent. False if there is no memory to describe it. */
static bool explicit_list_region(struct arena *arena, char *start, size_t size, bool is_zero)
{
    /* The hook may have taken memory that already is ours. */
    bool is_ours = pagemap_find(start) != pagemap_nothing() ||
                   pagemap_find(start + size - GRANULE) != pagemap_nothing();
    bool covered = !is_ours && pagemap_cover((uintptr_t)start, size);
    lock_take(&arena->lock);
    struct region *region = NULL;
    if (covered && arena->unused_regions != NULL) {
        region = arena->unused_regions;
        arena->unused_regions = region->next;
    } else if (covered) {
        region = meta_alloc(sizeof *region);
    }
    bool is_listed = arena_list_region_locked(arena, region, start, size, is_zero);
    if (is_listed && os_asks_for_huge_pages(size) && arena->hooks == NULL) {
        atomic_set(&region->huge_page_bytes, size); /* as os_map_aligned has asked for it */
    }
    lock_release(&arena->lock);
    return is_listed;
}

static bool explicit_map_region(struct arena *arena, size_t size, size_t alignment)
{
    bool is_zero;
    char *start = hooks_map(arena->hooks, size, alignment, arena->number, &is_zero);
    if (start == NULL) {
        return false;
    }
    if (!explicit_list_region(arena, start, size, is_zero)) {
        hooks_unmap(arena->hooks, start, size, true, true, arena->number);
        return false;
    }
    return true;
}

/* Maps a region for `size` bytes, larger if it can be had. The kernel's are aligned to
 * REGION_ALIGNMENT, so that they can consist of huge pages. */
static bool explicit_add_region(struct arena *arena, size_t size, size_t alignment)
{
    lock_take(&arena->lock);
    size_t wanted = size_max(arena_region_size(arena), size);
    lock_release(&arena->lock);
    if (arena->hooks == NULL) {
        alignment = size_max(alignment, REGION_ALIGNMENT);
    }
    bool is_mapped = explicit_map_region(arena, wanted, alignment);
    while (!is_mapped && wanted > size) {
        wanted = size_max(align_up(wanted / 2, os_page_size), size);
        is_mapped = explicit_map_region(arena, wanted, alignment);
    }
    if (is_mapped) {
        lock_take(&arena->lock);
        arena->region_next_size =
            size_min(2 * size_max(arena->region_next_size, wanted), REGION_MAX);
        lock_release(&arena->lock);
    }
    return is_mapped;
}

/* --- Blocks ----------------------------------------------------------------------------------- */

/* From what is free: resident or not. */
static struct extent *explicit_take(struct arena *arena, size_t pages, size_t alignment,
                                    bool is_dirty)
{
    struct extent *extent = NULL;
    lock_take(&arena->lock);
    if (is_dirty) {
        extent = arena_take_locked(arena, &arena->dirty, pages, alignment);
    } else {
        extent = arena_take_locked(arena, &arena->muzzy, pages, alignment);
        if (extent == NULL) {
            extent = arena_take_locked(arena, &arena->retained, pages, alignment);
        }
    }
    lock_release(&arena->lock);
    return extent;
}

/* The beginning of the region that was made last, which is free. NULL if a hook does not let it be
 * cut. */
static struct extent *explicit_take_newest(struct arena *arena, size_t pages)
{
    lock_take(&arena->lock);
    struct extent *extent = pagemap_find((void *)arena->regions->start); /* the newest is first */
    check(extent_pages(extent) >= pages && extent_state(extent) == EXTENT_RETAINED);
    extent = arena_cut_locked(arena, &arena->retained, extent, 0, pages);
    lock_release(&arena->lock);
    return extent;
}

/* Lets an extent's memory, which a hook has taken away, come back. NULL, and the extent is free, if
 * it does not. */
static struct extent *explicit_commit(struct arena *arena, struct extent *extent)
{
    if (extent == NULL || !extent->is_decommitted) {
        return extent;
    }
    if (hooks_commit(arena->hooks, (void *)extent->start, extent_size(extent), arena->number)) {
        extent->is_decommitted = false;
        extent->is_zero = extent->is_zero && arena->hooks != NULL;
        return extent;
    }
    lock_take(&arena->lock);
    arena_uncount_active_locked(arena, false, extent_pages(extent));
    arena_insert_locked(arena, extent, EXTENT_RETAINED);
    check_slow(arena_is_valid(arena));
    lock_release(&arena->lock);
    return NULL;
}

static struct extent *explicit_alloc(struct arena *arena, size_t pages, size_t alignment)
{
    check(arena->is_explicit && pages > 0 && is_power_of_two(alignment));
    if (pages > UINT32_MAX - 1) {
        return NULL;
    }
    struct extent *extent = explicit_take(arena, pages, alignment, true);
    if (extent != NULL) {
        return extent;
    }
    /* The limit's lock is not held while memory comes: a hook may allocate. */
    if (!limit_enter(pages)) {
        return NULL;
    }
    limit_leave();
    extent = explicit_take(arena, pages, alignment, false);
    if (extent == NULL && (arena->hooks == NULL || arena->hooks->split != NULL) &&
        explicit_add_region(arena, pages << os_page_shift, alignment)) {
        extent = explicit_take_newest(arena, pages);
    }
    if (extent == NULL && arena->hooks != NULL &&
        explicit_map_region(arena, pages << os_page_shift, alignment)) {
        extent = explicit_take_newest(arena, pages); /* all of it: nothing has to be cut */
    }
    return explicit_commit(arena, extent);
}

static void explicit_free(struct arena *arena, struct extent *extent)
{
    arena_free(arena, extent);
    if (arena_dirty_decay_ms(arena) == 0) {
        explicit_purge(arena);
    }
}

static bool explicit_try_grow(struct arena *arena, struct extent *extent, size_t pages)
{
    if (pages > UINT32_MAX - 1 || !limit_enter(pages - extent_pages(extent))) {
        return false;
    }
    limit_leave();
    lock_take(&arena->lock);
    struct extent *next = arena_room_behind_locked(arena, extent, pages);
    bool done = next != NULL && arena_expand_locked(arena, extent, next, pages);
    lock_release(&arena->lock);
    return done;
}

static bool explicit_try_resize(struct arena *arena, struct extent *extent, size_t pages)
{
    check(arena->is_explicit && extent_state(extent) == EXTENT_ACTIVE);
    if (pages > extent_pages(extent)) {
        return explicit_try_grow(arena, extent, pages);
    }
    if (pages < extent_pages(extent)) {
        arena_shrink(arena, extent, pages);
        if (arena_dirty_decay_ms(arena) == 0) {
            explicit_purge(arena);
        }
    }
    return true;
}

/* --- Back ------------------------------------------------------------------------------------- */

/* Takes a region without an active extent out of the arena. Returns its extents, linked by
 * bin_next. */
static struct extent *explicit_unlist_region_locked(struct arena *arena, struct region **at)
{
    struct region *region = *at;
    struct extent *extents = NULL;
    *at = region->next;
    arena->region_bytes -= region->size;
    for (uintptr_t start = region->start; start < region->start + region->size;) {
        struct extent *extent = pagemap_find((void *)start);
        check(extent->start == start && extent_state(extent) >= EXTENT_DIRTY);
        start = extent_end(extent);
        extent_set_remove(arena_set_of(arena, extent), extent);
        extent_unmap_ends(extent);
        atomic_set(&extent->state, EXTENT_MOVING);
        extent->bin_next = extents;
        extents = extent;
    }
    return extents;
}

/* Puts a region back whose only extent nobody took. */
static void explicit_relist_region(struct arena *arena, struct region *region,
                                   struct extent *extent)
{
    if (arena->hooks == NULL && !extent->is_decommitted) {
        extent->is_zero = os_purge((void *)extent->start, extent_size(extent));
    }
    lock_take(&arena->lock);
    region->next = arena->regions;
    arena->regions = region;
    arena->region_bytes += region->size;
    extent_map_ends(extent);
    arena_insert_locked(arena, extent, EXTENT_RETAINED);
    lock_release(&arena->lock);
}

/* Drops the extents of a region that is in no list. */
static void explicit_drop_region(struct arena *arena, struct region *region, struct extent *extents,
                                 bool for_ever)
{
    for (struct extent *extent = extents, *next; extent != NULL; extent = next) {
        next = extent->bin_next;
        bool is_gone = hooks_unmap(arena->hooks, (void *)extent->start, extent_size(extent),
                                   !extent->is_decommitted, for_ever, arena->number);
        if (!is_gone) {
            /* Only what one hook joins is offered, and the kernel's memory is always joined. */
            check(extents == extent && next == NULL);
            explicit_relist_region(arena, region, extent);
            return;
        }
        lock_take(&arena->lock);
        extent->is_decommitted = false;
        descriptor_free_locked(arena, extent);
        lock_release(&arena->lock);
    }
    lock_take(&arena->lock);
    arena->regions_dropped++;
    region->next = arena->unused_regions;
    arena->unused_regions = region;
    lock_release(&arena->lock);
}

/* The place of a region that is one free extent without memory behind it; NULL if there is none
 * behind `*at`. */
static struct region **explicit_find_free_locked(struct region **at)
{
    for (; *at != NULL; at = &(*at)->next) {
        struct extent *extent = pagemap_find((void *)(*at)->start);
        if (extent_state(extent) == EXTENT_RETAINED && extent_size(extent) == (*at)->size) {
            return at;
        }
    }
    return NULL;
}

/* Offers each region without a block to the hook that drops mappings, once. */
static void explicit_offer_regions(struct arena *arena)
{
    if (arena->hooks == NULL || arena->hooks->dalloc == NULL) {
        return;
    }
    struct region *offered = NULL;
    struct region **at;
    lock_take(&arena->lock);
    while ((at = explicit_find_free_locked(&arena->regions)) != NULL) {
        struct region *region = *at;
        struct extent *extents = explicit_unlist_region_locked(arena, at);
        check(extents != NULL && extents->bin_next == NULL);
        region->next = offered;
        offered = region;
        atomic_set(&extents->state, EXTENT_MOVING);
        extent_map_ends(extents); /* how it is found below */
    }
    lock_release(&arena->lock);
    while (offered != NULL) {
        struct region *region = offered;
        offered = region->next;
        struct extent *extent = pagemap_find((void *)region->start);
        extent_unmap_ends(extent);
        explicit_drop_region(arena, region, extent, false);
    }
}

static size_t explicit_purge(struct arena *arena)
{
    size_t purged = arena_purge(arena, 0);
    if (purged != 0) {
        explicit_offer_regions(arena);
    }
    return purged;
}

static size_t explicit_tick(struct arena *arena, uint64_t now_ms)
{
    uint64_t before = arena->dirty_purges.runs + arena->muzzy_purges.runs;
    size_t left = arena_tick(arena, now_ms);
    if (arena->dirty_purges.runs + arena->muzzy_purges.runs != before) {
        explicit_offer_regions(arena);
    }
    if (!option(OPTION_retain) && arena->hooks == NULL) {
        arena_unmap_free_regions(arena);
    }
    return left;
}

static struct extent *explicit_active(struct arena *arena)
{
    struct extent *active = NULL;
    lock_take(&arena->lock);
    for (struct region *region = arena->regions; region != NULL; region = region->next) {
        for (uintptr_t at = region->start; at < region->start + region->size;) {
            struct extent *extent = pagemap_find((void *)at);
            require(extent != pagemap_nothing() && extent->start == at);
            if (extent_state(extent) == EXTENT_ACTIVE) {
                extent->bin_next = active;
                active = extent;
            }
            at = extent_end(extent);
        }
    }
    lock_release(&arena->lock);
    return active;
}

static void explicit_drop_all(struct arena *arena)
{
    check(atomic_get(&arena->active_pages) == 0);
    arena_purge(arena, 0);
    lock_take(&arena->lock);
    struct region *kept = NULL;
    while (arena->regions != NULL && arena->regions != kept) {
        struct region *region = arena->regions;
        struct extent *extents = explicit_unlist_region_locked(arena, &arena->regions);
        lock_release(&arena->lock);
        explicit_drop_region(arena, region, extents, arena->hooks != NULL);
        lock_take(&arena->lock);
        if (arena->regions == region) {
            kept = region; /* the kernel has no room for one more mapping: nor for the next */
        }
    }
    lock_release(&arena->lock);
}
