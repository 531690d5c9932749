/* SPDX-License-Identifier: MIT
 *
 * Arenas: each has regions of address space and the free extents in them, under one lock. Heaps
 * take extents for slabs and large blocks here and bring them back.
 *
 *   new region -> RETAINED -> ACTIVE -> DIRTY -> (MUZZY ->) RETAINED
 *
 * Reuse prefers dirty to muzzy to retained to new; what is missing of a dirty extent may come from
 * the one behind it. Neighbours in the same state are merged at once.
 * Very large blocks ("huge") are mappings of their own, so that growing them is a matter of page
 * tables; a freed one waits among the dirty extents and is unmapped when its time is over.
 */
#ifndef MALLOW_ARENA_H
#define MALLOW_ARENA_H

#include "../memory/decay.h"
#include "../memory/extent.h"
#include "../os/lock.h"
#include "../settings/options.h"

#define ARENAS_MAX 64u
#define REGION_ALIGNMENT (2 * MiB)
#define REGION_MAX (64 * MiB)

/* Blocks from this size on are huge. */
#define HUGE_MIN (1 * MiB)

/* Descriptors that lie in their arena, in a page that every program writes to: as many as a region
 * has that one slab was cut from. Not used where metadata lies between guard pages. */
#define FIRST_EXTENTS 2u

struct arena {
    struct lock lock;
    struct lock purge_lock; /* held while extents are on their way back to the kernel */
    uint8_t index;          /* const */
    bool is_ready;          /* const after arena_init */
    uint32_t step;          /* lock: counts ticks, to tell older extents from younger ones */

    struct extent_set dirty;    /* lock */
    struct extent_set huge;     /* lock: dirty, and mappings of their own */
    struct extent_set muzzy;    /* lock */
    struct extent_set retained; /* lock */

    struct decay dirty_decay; /* lock */
    struct decay muzzy_decay; /* lock */

    struct region *regions;        /* lock */
    struct region *unused_regions; /* lock: their memory, for reuse */
    struct region first_region;    /* lock: memory for the first one, which all programs need */
    size_t region_next_size;       /* lock: of the next region */
    uintptr_t region_hint;         /* lock: where it would continue the last one */
    struct link descriptors;       /* lock: unused descriptors */
    struct extent first_extents[FIRST_EXTENTS]; /* lock: what these are at first */

    size_t grown_pages;       /* lock: see arena_note_growth */
    size_t region_bytes;      /* lock: in regions */
    size_t huge_active_pages; /* lock: of huge blocks in use */
    size_t huge_active_count; /* lock */
    size_t active_pages;      /* lock: of other extents in use */
};

/* Makes arena `index` usable. */
static struct arena *arena_init(unsigned index);

/* An active extent of at least `pages`, aligned to `alignment` (a power of two, at least a page).
 * NULL if out of memory. It is huge if its size is at least HUGE_MIN. */
static struct extent *arena_alloc(struct arena *arena, size_t pages, size_t alignment);

/* The same from free memory that is still resident only. */
static struct extent *arena_alloc_dirty(struct arena *arena, size_t pages, size_t alignment);

/* Takes back an active extent; its first and last granule are in the page map, no others are. */
static void arena_free(struct arena *arena, struct extent *extent);

/* Makes an active extent larger where it is, or smaller. False if there is no room. */
static bool arena_try_expand(struct arena *arena, struct extent *extent, size_t pages);
static void arena_shrink(struct arena *arena, struct extent *extent, size_t pages);

/* Makes a huge extent larger by moving its mapping. False if the kernel cannot. */
static bool arena_try_remap(struct arena *arena, struct extent *extent, size_t pages);

/* `pages` that are not resident are about to be used. */
static void arena_note_growth(struct arena *arena, size_t pages);

/* Lets decay run. Returns how many dirty pages are left. */
static size_t arena_tick(struct arena *arena, uint64_t now_ms);

/* Gives free memory back to the kernel until at most `keep_pages` are left. Returns the pages
 * given back. */
static size_t arena_purge(struct arena *arena, size_t keep_pages);

/* Gives the address space of regions without any used page back to the kernel. */
static void arena_unmap_free_regions(struct arena *arena);

static struct arena *arena_of(struct extent *extent);

/* Arenas in use are 0 .. arena_count() - 1. */
static unsigned arena_count(void);
static struct arena *arena_at(unsigned index);

static bool arena_is_valid(struct arena *arena);

#endif
