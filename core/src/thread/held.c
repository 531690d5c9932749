/* SPDX-License-Identifier: MIT */
#include "held.h"

#include "../memory/fence.h"
#include "../os/fault.h"
#include "../os/trap.h"
#include "../slots/rate.h"
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

/* What a block that waits without access pays: the calls of the kernel, and its pages, which come anew. */
#define HELD_PRICE (512 * KiB)

/* Takes the access to a block away, at a rate. The kernel makes no guards in a region with huge pages without breaking
 * these. When the account had too little it is not asked again in the same millisecond. */
static bool held_shut(struct extent *extent)
{
    static _Atomic uint32_t refused = UINT32_MAX;
    uint32_t now = extent->slab.stamp;
    if (atomic_get(&refused) == now ||
        atomic_get(&extent->region->huge_pages) == HUGE_PAGES_ASKED) {
        return false;
    }
    if (!rate_pay(RATE_OF_HELD, HELD_PRICE)) {
        atomic_set(&refused, now);
        return false;
    }
    /* mw_heap_is_valid, which has the lock, reads the ends of active blocks. */
    struct arena *arena = arena_of(extent);
    lock_take(&arena->lock);
    atomic_set(&extent->state, EXTENT_CACHED);
    lock_release(&arena->lock);
    return fence_shut(extent);
}

static bool held_is_shut(struct extent *extent)
{
    return extent_fence(extent)->ways != 0;
}

static void held_begin(struct extent *extent)
{
    if (held_shut(extent)) {
        if (!MW_IN_LIBC) {
            trap_keep();
        }
        return;
    }
    if (strength.fills_large) {
        memset((void *)extent->start, 0, extent_size(extent));
    }
    memset((void *)extent->start, FILL_FREE, HELD_FILLED);
}

static bool held_is_whole(struct extent *extent)
{
    return held_is_shut(extent) || likely(fill_differs((const unsigned char *)extent->start,
                                                       HELD_FILLED, FILL_FREE) == HELD_FILLED);
}

/* False if the kernel does not give the access back: then nobody gets the block. */
static bool held_end(struct extent *extent)
{
    if (likely(!held_is_shut(extent))) {
        return true;
    }
    bool may_hold = (extent_fence(extent)->ways & GUARD_PROTECTED) != 0; /* if it is locked */
    if (!fence_reopen(extent)) {
        return false;
    }
    if (may_hold && strength.fills_large) {
        memset((void *)extent->start, 0, extent_size(extent));
    }
    return true;
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
    bool waits = strength.held_blocks != 0 && option(OPTION_dirty_decay_ms) != 0;
    if (!waits || !held_takes(extent)) {
        if (strength.fills_large && held_takes(extent)) {
            memset((void *)extent->start, 0, extent_size(extent));
        }
        return extent;
    }
    check(strength.held_blocks <= HELD_MOST);
    uint32_t at = random_below(random_next(&heap->delay.numbers), strength.held_blocks);
    extent->slab.stamp = clock_stamp();
    held_begin(extent);
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
        if (!held_end(leaving)) {
            return NULL;
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
    if (extent != NULL && is_whole && held_end(extent)) {
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
