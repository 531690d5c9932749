/* SPDX-License-Identifier: MIT */
#include "held.h"

#include "../os/fault.h"
#include "tray.h"

#if MW_FENCES

#define HELD_MOST 8u

/* A row for each arena; further arenas share them. */
#define HELD_ROWS 16u

/* atomic: anybody puts and takes */
static _Atomic(struct extent *) held_blocks[HELD_ROWS][HELD_MOST] IN_SECTION(pools);

/* Larger ones without guards are those that could not pay for them, and may be mostly untouched. */
static bool held_takes(struct extent *extent)
{
    return extent_size(extent) < strength.fence_min;
}

/* What a stale pointer most likely writes is the beginning of the block: so many bytes are the fill while it waits.
 * That is a cache line, and of a page that a program hardly ever leaves untouched. */
#define HELD_FILLED 64u

static void held_fill(struct extent *extent)
{
    memset((void *)extent->start, FILL_FREE, HELD_FILLED);
}

static bool held_is_whole(struct extent *extent)
{
    return likely(fill_differs((const unsigned char *)extent->start, HELD_FILLED, FILL_FREE) ==
                  HELD_FILLED);
}

_Noreturn static COLD void held_report(struct extent *extent)
{
    const unsigned char *bytes = (const unsigned char *)extent->start;
    struct written found = fill_find_written(bytes, 0, HELD_FILLED, FILL_FREE);
    struct fault fault = {
        .kind = FAULT_WRITE_AFTER_FREE,
        .call = "free",
        .block = extent->start,
        .size = extent_size(extent),
        .state = "freed",
        .has_offset = true,
        .offset = (long)found.at,
        .length = found.length,
    };
    fault_report(&fault, "write after free: byte %zu of %p (%zu bytes) is 0x%x", found.at,
                 (const void *)bytes, fault.size, bytes[found.at]);
}

static struct extent *held_exchange(struct heap *heap, struct extent *extent)
{
    check(extent_state(extent) == EXTENT_ACTIVE && !extent_is_slab(extent) && !extent->is_huge);
    if (strength.fills_large && held_takes(extent)) {
        memset((void *)extent->start, 0, extent_size(extent));
    }
    if (strength.held_blocks == 0 || !held_takes(extent) || option(OPTION_dirty_decay_ms) == 0) {
        return extent;
    }
    check(strength.held_blocks <= HELD_MOST);
    uint32_t at = random_below(random_next(&heap->delay.numbers), strength.held_blocks);
    extent->slab.stamp = clock_stamp();
    held_fill(extent);
    atomic_set(&extent->state, EXTENT_CACHED);
    /* pairs with itself and held_release_since */
    struct extent *leaving =
        atomic_swap(&held_blocks[extent_arena(extent) % HELD_ROWS][at], extent);
    free_news_note();
    if (leaving != NULL) {
        check(extent_state(leaving) == EXTENT_CACHED);
        if (!held_is_whole(leaving)) {
            held_report(leaving);
        }
        atomic_set(&leaving->state, EXTENT_ACTIVE);
    }
    return leaving;
}

/* Gives what is in one place to its arena, if it is that old. */
static void held_release(_Atomic(struct extent *) *place, bool all, uint32_t stamp)
{
    struct extent *extent = atomic_get_acquire(place);
    if (extent == NULL || (!all && (int32_t)(extent->slab.stamp - stamp) >= 0)) {
        return;
    }
    lock_take(&rob_lock);              /* see tray.h */
    extent = atomic_swap(place, NULL); /* pairs with held_exchange; may be a younger one by now */
    bool is_whole = extent == NULL || held_is_whole(extent);
    if (extent != NULL && is_whole) {
        extent->slab.below = NULL;
        arena_free_chain(extent);
    }
    lock_release(&rob_lock);
    if (!is_whole) {
        held_report(extent); /* the program's handler may need the lock */
    }
}

static void held_release_any(bool all, uint32_t stamp)
{
    for (unsigned row = 0; row < HELD_ROWS; row++) {
        for (unsigned i = 0; i < strength.held_blocks; i++) {
            held_release(&held_blocks[row][i], all, stamp);
        }
    }
}

static void held_release_since(uint32_t stamp)
{
    held_release_any(false, stamp);
}

static bool held_has_any(void)
{
    for (unsigned i = 0; i < HELD_ROWS * HELD_MOST; i++) {
        if (atomic_get(&held_blocks[i / HELD_MOST][i % HELD_MOST]) != NULL) {
            return true;
        }
    }
    return false;
}

static void held_release_all(void)
{
    held_release_any(true, 0);
}

#else

static struct extent *held_exchange(struct heap *heap, struct extent *extent)
{
    (void)heap;
    return extent;
}

static void held_release_since(uint32_t stamp)
{
    (void)stamp;
}

static bool held_has_any(void)
{
    return false;
}

static void held_release_all(void)
{
}

#endif
