/* SPDX-License-Identifier: MIT */
#include "fenced.h"

#include "limit.h"
#include "purge.h"

/* A larger free block serves in part, up to so many times the size: what is left of it lies idle. */
#define REUSED_TIMES 4u

/* Smaller growth is not worth a call of the kernel. */
#define MAKES_ROOM_MIN (1 * MiB)

/* The descriptor follows what the fence has done. */
static void arena_set_fenced_pages(struct arena *arena, struct extent *extent, size_t pages)
{
    lock_take(&arena->lock);
    arena_uncount_active_locked(arena, true, extent_pages(extent));
    extent_unmap_ends(extent);
    atomic_set(&extent->pages, (uint32_t)pages);
    extent_map_ends(extent);
    arena_count_active_locked(arena, true, pages);
    lock_release(&arena->lock);
}

static bool arena_try_resize_fenced(struct arena *arena, struct extent *extent, size_t pages)
{
    size_t old_pages = extent_pages(extent);
    bool grows = pages > old_pages;
    check(extent_has_fence(extent) && extent_state(extent) == EXTENT_ACTIVE && pages != old_pages);
    if (grows && (!fence_has_room(extent, pages) || !limit_enter(pages - old_pages))) {
        return false;
    }
    bool done = fence_resize(extent, pages);
    if (done) {
        arena_set_fenced_pages(arena, extent, pages);
    }
    if (grows) {
        limit_leave();
    }
    return done;
}

/* What is cut off an extent keeps its memory until the block is freed, when it is one with it again: the
 * kernel would have to bring it anew for the next larger block. Nobody counts it meanwhile, so a limit wants
 * it back. If the kernel refuses the extent stays larger. */
static void arena_cut_fenced(struct arena *arena, struct extent *extent, size_t pages)
{
    if (option(OPTION_memory_limit) != 0) {
        arena_try_resize_fenced(arena, extent, pages);
    } else if (fence_cut(extent, pages)) {
        arena_set_fenced_pages(arena, extent, pages);
    }
}

/* A free fence of at most REUSED_TIMES the size, cut to it. */
static struct extent *arena_take_fenced(struct arena *arena, size_t pages, size_t alignment)
{
    lock_take(&arena->lock);
    struct extent *extent = extent_set_fit(&arena->huge, pages);
    bool serves = extent != NULL && extent_has_fence(extent) &&
                  extent_pages(extent) <= REUSED_TIMES * pages &&
                  (extent->start & (alignment - 1)) == 0;
    if (serves) {
        arena_take_huge_locked(arena, extent);
    }
    lock_release(&arena->lock);
    if (!serves) {
        return NULL;
    }
    if (extent_pages(extent) > pages) {
        arena_cut_fenced(arena, extent, pages);
    }
    return extent;
}

/* One of the free blocks that are too large for `pages` gives as much back, and goes on waiting. */
static void arena_make_room(struct arena *arena, size_t pages)
{
    if (pages << os_page_shift < MAKES_ROOM_MIN) {
        return;
    }
    lock_take(&arena->lock);
    struct extent *extent = extent_set_fit(&arena->huge, REUSED_TIMES * pages + 1);
    bool serves = extent != NULL && extent_has_fence(extent);
    if (serves) {
        arena_take_huge_locked(arena, extent);
    }
    lock_release(&arena->lock);
    if (serves) {
        arena_try_resize_fenced(arena, extent, extent_pages(extent) - pages);
        lock_take(&arena->lock);
        arena_free_locked(arena, extent);
        lock_release(&arena->lock);
    }
}

static void (*const arena_makes_room)(struct arena *arena, size_t pages) = arena_make_room;

static struct extent *arena_alloc_fenced(struct arena *arena, size_t pages, size_t alignment)
{
    if (pages > UINT32_MAX - 1) {
        return NULL;
    }
    struct extent *extent = arena_take_fenced(arena, pages, alignment);
    if (extent == NULL && limit_enter(pages)) {
        size_t grown;
        extent = alignment == os_page_size ? arena_grow_dirty(arena, pages, &grown) : NULL;
        if (extent == NULL) {
            arena_make_room(arena, pages);
            extent = arena_map_huge(arena, pages, alignment);
        }
        limit_leave();
    }
    return extent;
}

static void arena_regain_tail(struct extent *extent)
{
    uint32_t tail = extent_fence(extent)->tail;
    if (tail > 1) {
        arena_try_resize_fenced(arena_of(extent), extent, extent_pages(extent) + tail - 1);
    }
}

static bool arena_take_out_fenced(struct extent *extent)
{
    struct arena *arena = arena_of(extent);
    lock_take(&arena->lock);
    bool is_held = extent_state(extent) == EXTENT_ACTIVE;
    if (is_held) {
        arena_uncount_active_locked(arena, extent->is_huge, extent_pages(extent));
        atomic_set(&extent->state, EXTENT_MOVING);
    }
    lock_release(&arena->lock);
    return is_held;
}

static bool arena_drop_fenced(struct extent *extent)
{
    struct arena *arena = arena_of(extent);
    void *start = (void *)extent->start;
    size_t size = extent_size(extent);
    check(extent_state(extent) == EXTENT_MOVING && extent_has_fence(extent));
    extent_unmap_ends(extent); /* the kernel may give the place to anybody as soon as it is free */
    bool is_gone = fence_unmap(start, size, extent_fence(extent));
    if (!is_gone) {
        extent_map_ends(extent);
        if (!fence_open(extent)) {
            return false;
        }
        extent->is_zero = os_purge(start, size);
        extent->slab.stamp = clock_stamp();
    }
    lock_take(&arena->lock);
    if (is_gone) {
        descriptor_free_locked(arena, extent);
    } else {
        arena_insert_locked(arena, extent, EXTENT_DIRTY);
    }
    lock_release(&arena->lock);
    return true;
}
