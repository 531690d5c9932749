/* SPDX-License-Identifier: MIT */
#include "purge.h"

#include "../settings/options.h"
#include "place.h"

/* Extents given back to the kernel between two looks at the lock. */
#define PURGE_BATCH 16u

/* Nothing is given back because of growth until the arena has grown by so much beside free
 * memory. */
#define GROWTH_MIN (128 * KiB)

/* What is given back because the arena grows may have to be faulted in again: so within one decay
 * time at most a quarter of what is in use is, or this much if that is more. Half as much with each step
 * of patience. */
#define OUTGROWN_MIN (1 * MiB)

/* The dirty extent that has been free for the longest time. */
static struct extent *arena_oldest_dirty_locked(struct arena *arena)
{
    check(lock_is_mine(&arena->lock));
    struct extent *small = extent_set_oldest(&arena->dirty);
    struct extent *huge = extent_set_oldest(&arena->huge);
    if (small == NULL || huge == NULL) {
        return small != NULL ? small : huge;
    }
    return (int32_t)(huge->slab.stamp - small->slab.stamp) < 0 ? huge : small;
}

static struct extent *arena_oldest_muzzy_locked(struct arena *arena)
{
    check(lock_is_mine(&arena->lock));
    return extent_set_oldest(&arena->muzzy);
}

static size_t arena_dirty_pages_locked(struct arena *arena)
{
    check(lock_is_mine(&arena->lock));
    return arena->dirty.pages + arena->huge.pages;
}

/* As extent_give_back: memory that the program's hooks neither take nor purge stays, and is free. */
static enum extent_state extent_give_to_hooks(struct arena *arena, struct extent *extent,
                                              bool may_be_lazy)
{
    void *start = (void *)extent->start;
    size_t size = extent_size(extent);
    check(!extent->is_huge && !extent->is_decommitted);
    if (may_be_lazy && hooks_purge_lazy(arena->hooks, start, size, arena->number)) {
        return EXTENT_MUZZY;
    }
    extent->is_decommitted = hooks_decommit(arena->hooks, start, size, arena->number);
    extent->is_zero =
        extent->is_decommitted || hooks_purge_forced(arena->hooks, start, size, arena->number);
    if (!extent->is_zero && !may_be_lazy) {
        hooks_purge_lazy(arena->hooks, start, size, arena->number);
    }
    return EXTENT_RETAINED;
}

static void region_refuse_huge_pages(struct region *region)
{
    /* Who wants them always keeps them, and a thread that may tell the kernel nothing leaves it to the next one. */
    if (os_wants_huge_pages || os_refuses_changes()) {
        return;
    }
    if (atomic_get(&region->huge_pages) != HUGE_PAGES_REFUSED) {
        atomic_set(&region->huge_pages, HUGE_PAGES_REFUSED);
        atomic_set(&region->huge_page_bytes, 0);
        os_refuse_huge_pages((void *)region->start, region->size);
    }
}

/* Gives the pages of one extent, which is in no set, back to the kernel. Without the lock. Returns
 * the state that it has then; UNUSED if the mapping is gone. */
static enum extent_state extent_give_back(struct arena *arena, struct extent *extent,
                                          bool may_be_lazy)
{
    void *start = (void *)extent->start;
    check(extent_state(extent) == EXTENT_MOVING && !extent_is_slab(extent));
    if (arena->hooks != NULL) {
        return extent_give_to_hooks(arena, extent, may_be_lazy);
    }
    if (extent->is_huge) {
        extent_unmap_ends(extent);
        if (fence_unmap(start, extent_size(extent), extent_fence(extent))) {
            return EXTENT_UNUSED;
        }
        /* No room for one more mapping: the block stays, without its memory, until the next
         * time. */
        extent_map_ends(extent);
        extent->is_zero = os_purge(start, extent_size(extent));
        extent->slab.stamp = clock_stamp();
        return EXTENT_DIRTY;
    }
    region_refuse_huge_pages(extent->region);
    if (may_be_lazy && os_purge_lazy(start, extent_size(extent))) {
        return EXTENT_MUZZY;
    }
    /* Locked memory cannot be given back; it is still free. */
    extent->is_zero = os_purge(start, extent_size(extent));
    return EXTENT_RETAINED;
}

/* Takes an extent in whose pages went back, or stayed because the kernel did not take them. */
static void arena_take_given_back_locked(struct arena *arena, struct extent *extent,
                                         enum extent_state state)
{
    size_t pages = extent_pages(extent);
    check(state == EXTENT_UNUSED || state == EXTENT_DIRTY || state == EXTENT_MUZZY ||
          state == EXTENT_RETAINED);
    if (state == EXTENT_UNUSED) {
        check(extent->is_huge);
        arena->huge_gone_pages += pages;
        arena->huge_gone_stamp = extent->slab.stamp;
        descriptor_free_locked(arena, extent);
        return;
    }
    extent->slab.given_back = (uint32_t)pages;
    arena_insert_locked(arena, extent, state);
}

/* Gives extents back, as `oldest` finds them, until `pages` have gone or there are none. Both locks
 * are held on entry and on return; the arena's own is not while the kernel works. Returns the pages
 * given back. */
static size_t arena_purge_locked(struct arena *arena, size_t pages, bool may_be_lazy,
                                 struct extent *(*oldest)(struct arena *))
{
    size_t purged = 0;
    uint64_t calls = 0;
    if (os_refuses_changes()) {
        return 0; /* other threads can: they must find the pages */
    }
    check((arena->is_explicit || lock_is_mine(&arena->purge_lock)) && lock_is_mine(&arena->lock));
    while (purged < pages) {
        struct extent *batch[PURGE_BATCH];
        enum extent_state states[PURGE_BATCH];
        unsigned count = 0;
        while (count < PURGE_BATCH && purged < pages) {
            struct extent *extent = oldest(arena);
            if (extent == NULL) {
                break;
            }
            extent_set_remove(arena_set_of(arena, extent), extent);
            atomic_set(&extent->state, EXTENT_MOVING);
            batch[count++] = extent;
            purged += extent_pages(extent);
        }
        if (count == 0) {
            break;
        }
        calls += count;
        lock_release(&arena->lock);
        for (unsigned i = 0; i < count; i++) {
            states[i] = extent_give_back(arena, batch[i], may_be_lazy);
        }
        lock_take(&arena->lock);
        for (unsigned i = 0; i < count; i++) {
            check(extent_state(batch[i]) == EXTENT_MOVING); /* nobody else touched it */
            arena_take_given_back_locked(arena, batch[i], states[i]);
        }
    }
    struct purge_counts *counts =
        oldest == arena_oldest_muzzy_locked ? &arena->muzzy_purges : &arena->dirty_purges;
    counts->runs += purged != 0;
    counts->calls += calls;
    counts->pages += purged;
    if (!may_be_lazy) {
        decay_note_given_back(&arena->dirty_decay, purged);
    }
    return purged;
}

/* How many of `pages` are more than may stay. */
static size_t pages_above(size_t pages, size_t may_stay)
{
    return pages > may_stay ? pages - may_stay : 0;
}

static long arena_dirty_decay_ms(struct arena *arena)
{
    long own_ms = atomic_get(&arena->dirty_ms);
    return own_ms != DECAY_AS_OPTION ? own_ms : option(OPTION_dirty_decay_ms);
}

static long arena_muzzy_decay_ms(struct arena *arena)
{
    long own_ms = atomic_get(&arena->muzzy_ms);
    return own_ms != DECAY_AS_OPTION ? own_ms : option(OPTION_muzzy_decay_ms);
}

/* --- Growth ---------------------------------------------------------------------------------- */

/* Whether as much as has been given back because of growth may be given back once more. */
static bool arena_may_outgrow_locked(struct arena *arena, long decay_ms)
{
    check(lock_is_mine(&arena->lock) && decay_ms >= 0);
    uint64_t now_ms = clock_ms();
    if (now_ms - arena->outgrown_ms >= (uint64_t)decay_ms) {
        arena->outgrown_ms = now_ms;
        arena->outgrown_pages = 0;
    }
    size_t in_use = atomic_get(&arena->active_pages) + arena->huge_active_pages;
    size_t most = size_max(in_use / 4, OUTGROWN_MIN >> os_page_shift);
    return arena->outgrown_pages < most >> atomic_get(&arena->dirty_decay.patience);
}

/* The oldest dirty extent if it is to go: the arena has grown by at least its size beside it, and
 * more than `slack_pages` are dirty. */
static struct extent *arena_outgrown_locked(struct arena *arena, size_t slack_pages)
{
    struct extent *oldest = arena_oldest_dirty_locked(arena);
    if (oldest == NULL || extent_pages(oldest) > arena->grown_pages ||
        arena->grown_pages << os_page_shift < GROWTH_MIN) {
        return NULL;
    }
    return arena_dirty_pages_locked(arena) > slack_pages ? oldest : NULL;
}

/* Gives back as much as has grown, the oldest first, so that the process does not grow beside
 * memory that it does not use. */
static void arena_note_growth(struct arena *arena, size_t pages, size_t slack_pages)
{
    long decay_ms = arena_dirty_decay_ms(arena);
    lock_take(&arena->lock);
    arena->grown_pages = size_min(arena->grown_pages + pages, arena_dirty_pages_locked(arena));
    bool is_outgrown = decay_ms >= 0 && arena_outgrown_locked(arena, slack_pages) != NULL &&
                       arena_may_outgrow_locked(arena, decay_ms);
    lock_release(&arena->lock);
    if (!is_outgrown || !lock_try_take(&arena->purge_lock)) {
        return;
    }
    lock_take(&arena->lock);
    struct extent *extent;
    while ((extent = arena_outgrown_locked(arena, slack_pages)) != NULL) {
        size_t going = extent_pages(extent);
        check(going <= arena->grown_pages);
        arena->grown_pages -= going;
        arena->outgrown_pages += going;
        arena_purge_locked(arena, going, false, arena_oldest_dirty_locked);
    }
    lock_release(&arena->lock);
    lock_release(&arena->purge_lock);
}

/* --- Time and demand ------------------------------------------------------------------------- */

/* Of an explicit arena the caller holds the direct lock, which serves as well: who waits for the
 * purge lock must not wait for a hook. */
static void purge_begin(struct arena *arena)
{
    if (!arena->is_explicit) {
        lock_take(&arena->purge_lock);
    }
}

static void purge_end(struct arena *arena)
{
    if (!arena->is_explicit) {
        lock_release(&arena->purge_lock);
    }
}

static bool arena_has_free(struct arena *arena)
{
    lock_take(&arena->lock);
    bool has_free = arena_dirty_pages_locked(arena) + arena->muzzy.pages != 0;
    lock_release(&arena->lock);
    return has_free;
}

static void arena_begin_decay_anew(struct arena *arena)
{
    lock_take(&arena->lock);
    if (arena_dirty_pages_locked(arena) == 0) {
        decay_begin_anew(&arena->dirty_decay);
    }
    lock_release(&arena->lock);
}

static size_t arena_tick(struct arena *arena, uint64_t now_ms)
{
    if (!arena->is_explicit && !lock_try_take(&arena->purge_lock)) {
        return (size_t)1 << 20; /* whoever holds it purges: there is something */
    }
    lock_take(&arena->lock);
    long dirty_ms = arena_dirty_decay_ms(arena);
    long muzzy_ms = arena_muzzy_decay_ms(arena);
    size_t dirty = arena_dirty_pages_locked(arena);
    size_t limit = decay_limit(&arena->dirty_decay, now_ms, dirty_ms, dirty);
    arena_purge_locked(arena, pages_above(dirty, limit), muzzy_ms != 0, arena_oldest_dirty_locked);
    limit = decay_limit(&arena->muzzy_decay, now_ms, muzzy_ms, arena->muzzy.pages);
    arena_purge_locked(arena, pages_above(arena->muzzy.pages, limit), false,
                       arena_oldest_muzzy_locked);
    check(arena_is_valid(arena)); /* walks, but not often */
    size_t left = arena_dirty_pages_locked(arena);
    lock_release(&arena->lock);
    purge_end(arena);
    return left;
}

static size_t arena_purge(struct arena *arena, size_t keep_pages)
{
    purge_begin(arena);
    lock_take(&arena->lock);
    size_t purged =
        arena_purge_locked(arena, pages_above(arena_dirty_pages_locked(arena), keep_pages), false,
                           arena_oldest_dirty_locked);
    purged += arena_purge_locked(arena, pages_above(arena->muzzy.pages, keep_pages), false,
                                 arena_oldest_muzzy_locked);
    check_slow(arena_is_valid(arena) && arena_regions_are_valid(arena));
    lock_release(&arena->lock);
    purge_end(arena);
    return purged;
}

static void arena_unmap_free_regions(struct arena *arena)
{
    lock_take(&arena->lock);
    struct region **at = &arena->regions;
    while (*at != NULL) {
        struct region *region = *at;
        struct extent *extent = pagemap_find((void *)region->start);
        check(extent->start == region->start && extent->region == region);
        if (extent_state(extent) != EXTENT_RETAINED || extent_size(extent) != region->size) {
            at = &region->next;
            continue;
        }
        extent_unmap_ends(extent);
        if (!os_unmap((void *)region->start, region->size)) {
            extent_map_ends(extent);
            at = &region->next;
            continue;
        }
        check(arena->region_bytes >= region->size);
        *at = region->next;
        extent_set_remove(&arena->retained, extent);
        descriptor_free_locked(arena, extent);
        arena->region_bytes -= region->size;
        arena->regions_dropped++;
        place_note_unmapped_locked(arena, region);
        check(arena_counts_match(arena));
    }
    check_slow(arena_regions_are_valid(arena));
    lock_release(&arena->lock);
}
