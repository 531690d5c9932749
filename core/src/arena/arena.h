/* SPDX-License-Identifier: MIT
 *
 * Arenas: each has regions of address space and the free extents in them, under one lock. Heaps
 * take extents for slabs and large blocks here when their stacks have none, and bring back what the
 * stacks do not hold.
 *
 *   new region -> RETAINED -> ACTIVE -> DIRTY -> (MUZZY ->) RETAINED
 *
 * Reuse prefers dirty to muzzy to retained to new; what is missing of a dirty extent may come from
 * the one behind it. Blocks above HUGE_ABOVE, and those that realloc made large, are mappings of
 * their own, so that growing them is a matter of page tables; a freed one is dirty too, in a set of
 * its own, and is unmapped when its time is over.
 */
#ifndef MALLOW_ARENA_H
#define MALLOW_ARENA_H

#include "../settings/options.h"
#include "place.h"

/* Blocks above this size are huge: mappings of their own. */
#define HUGE_ABOVE (8 * MiB)

/* Requests from this size on may be cut out of the free mapping of a huge block. */
#define LEFT_BY_REALLOC_MIN (512 * KiB)

static_assert(HUGE_ABOVE < REGION_MAX, "the largest block of a region fits into a new one");

/* Makes arena `index` usable. Called in the order of the indices, under LOCK_HEAPS. */
static struct arena *arena_init(unsigned index);

/* An active extent of at least `pages`, aligned to `alignment` (a power of two, at least a page).
 * NULL if out of memory. It is huge if its size is above HUGE_ABOVE. */
static struct extent *arena_alloc(struct arena *arena, size_t pages, size_t alignment);

/* The same from free memory that is still resident only. */
static struct extent *arena_alloc_dirty(struct arena *arena, size_t pages, size_t alignment);

/* The same two from any arena, `first` before the others. */
static struct extent *arenas_alloc_dirty(struct arena *first, size_t pages, size_t alignment);
static struct extent *arenas_alloc(struct arena *first, size_t pages, size_t alignment);

/* Takes back an active extent that is no slab; it becomes dirty. */
static void arena_free(struct arena *arena, struct extent *extent);

/* Takes back a chain of extents, linked by `below`, of any arenas. Returns the most pages that are dirty now in
 * one of these. */
static size_t arena_free_chain(struct extent *chain);

/* Lists a new region, which consists of one retained extent. False if there is no memory for what describes it:
 * `described` is NULL then, or waits for the next region. */
static bool arena_list_region_locked(struct arena *arena, struct region *described, char *start,
                                     size_t size, bool is_zero);

/* Makes an active extent larger where it is, or smaller. False if there is no room. */
static bool arena_try_expand(struct arena *arena, struct extent *extent, size_t pages);
static void arena_shrink(struct arena *arena, struct extent *extent, size_t pages);

/* A free huge block that is too small but not by much, made larger: what lies in it need not be brought by the
 * kernel again. Writes by how many pages it grew; NULL if there is none. */
static struct extent *arena_grow_dirty(struct arena *arena, size_t pages, size_t *grown);

/* Whether a free huge block has room for `pages`. */
static bool arena_has_huge_room(struct arena *arena, size_t pages);

/* Makes an active extent larger by moving its page tables: the mapping that a huge one is, or the pages of one of a
 * region into a mapping of their own; it is huge then, and its old place free. As with all growth, free memory goes
 * back for it. False if the kernel cannot. */
static bool arena_try_move(struct arena *arena, struct extent *extent, size_t pages);

/* How much free and resident memory (pages) may stay unused while the process grows beside it. */
static size_t arena_slack_pages(struct arena *arena);

/* In builds with fences: the arena is about to grow by so many pages beside free blocks that have some. What knows
 * fences gives as much back. */
static void (*const arena_makes_room)(struct arena *arena, size_t pages);

#endif
