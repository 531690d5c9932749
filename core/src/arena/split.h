/* SPDX-License-Identifier: MIT
 *
 * What an arena consists of, and how its extents are split and joined. All of it happens under the
 * arena's lock; nothing here makes a call to the kernel.
 *
 *   RETAINED -> ACTIVE -> DIRTY -> (MUZZY ->) RETAINED
 *
 * Neighbours in the same free state are joined at once.
 */
#ifndef MALLOW_SPLIT_H
#define MALLOW_SPLIT_H

#include "../memory/decay.h"
#include "../memory/extent.h"
#include "../memory/fence.h"
#include "../os/lock.h"
#include "hooks.h"

/* Arenas that threads share; the program may make others at run time, see explicit.h. All of them have
 * numbers below ARENA_NUMBERS, as flags have room for no more. */
#define ARENAS_MAX 64u
#define ARENA_NUMBERS 4095u

static_assert(ARENAS_MAX + ARENA_NUMBERS <= UINT16_MAX, "an extent names its arena in 16 bits");

#define ARENA_NAME_SIZE 32u

#define DECAY_AS_OPTION (-2)

/* Descriptors that lie in their arena, in a page that every program writes to: as many as a region
 * has that one slab was cut from. Not used where metadata lies between guard pages. */
#define FIRST_EXTENTS 2u

/* Huge blocks are counted by their number of pages, rounded up to a power of two: this one. A block
 * has less than 2^32 pages. */
#define HUGE_SIZES 33u

ALWAYS_INLINE unsigned huge_size_of(size_t pages)
{
    return pages <= 1 ? 0 : floor_log2(pages - 1) + 1;
}

static_assert((uint64_t)1 << (HUGE_SIZES - 1) > UINT32_MAX, "a class for each huge block");

/* What was given back to the kernel out of one state. */
struct purge_counts {
    uint64_t runs;  /* how often something was */
    uint64_t calls; /* to the kernel, one for each extent */
    uint64_t pages;
};

/* What a program that allocates one block writes to comes first: the first of these structures lies behind
 * the library's small variables (IN_SECTION in base.h), and all of that on one page. */
struct arena {
    struct lock lock;
    struct lock growth_lock; /* held while a region is mapped */
    struct lock purge_lock;  /* held while extents are on their way back to the kernel */
    uint16_t index;          /* const: in `arenas`, or ARENAS_MAX and more: explicit */
    bool is_ready;           /* const after arena_init */
    bool is_explicit;        /* const: made by the program. All its extents are in regions, and who
                               changes one holds the direct lock */
    _Atomic bool is_in_use;  /* lock: table; of an explicit arena: it is made and not destroyed */
    unsigned number;         /* const: what the program calls it */
    extent_hooks_t *hooks;   /* lock: direct; NULL: the kernel. Of explicit arenas only */
    size_t region_most;      /* lock; regions grow no larger of themselves; 0: REGION_MAX */
    size_t told_oversize;    /* lock; oversize_threshold as the program set it: nothing follows */
    _Atomic uint32_t bound;  /* atomic: threads that allocate from this explicit arena */
    char name[ARENA_NAME_SIZE]; /* lock; empty: by number */

    _Atomic long dirty_ms; /* atomic: decay times of this arena; DECAY_AS_OPTION: as the */
    _Atomic long muzzy_ms; /* option says */

    struct region *regions;        /* lock */
    struct region *unused_regions; /* lock: for reuse, with their places, see place.h */
    struct region first_region;    /* lock: memory for the first one, which all programs need */
    size_t region_next_size;       /* lock: of the next region */
    uintptr_t region_hint;         /* lock: where it would continue the last one */
    struct link descriptors;       /* lock: unused descriptors */
    struct link reserved; /* lock: unused descriptors that are kept for splits that must not fail */
    uint64_t pages_refaulted; /* lock: pages that were given back and then needed again */
    struct extent first_extents[FIRST_EXTENTS]; /* lock: what these are at first */

    size_t grown_pages;          /* lock: growth for which nothing has been given back yet */
    size_t outgrown_pages;       /* lock: given back because the arena grew, since outgrown_ms */
    uint64_t outgrown_ms;        /* lock: when that count began */
    size_t region_bytes;         /* lock: in regions */
    size_t huge_active_pages;    /* lock: of huge blocks in use */
    size_t huge_active_count;    /* lock */
    _Atomic size_t active_pages; /* lock: of other extents that heaps have, in use or in stacks;
                                    atomic for who only looks */

    uint64_t made_ms;         /* const after arena_init: by os_now_ms() */
    uint64_t regions_made;    /* lock */
    uint64_t regions_dropped; /* lock */

    struct extent_set retained; /* lock */
    struct extent_set dirty;    /* lock */
    struct extent_set huge;     /* lock: the dirty ones that are mappings of their own */
    struct extent_set muzzy;    /* lock */

    struct decay dirty_decay; /* lock */
    struct decay muzzy_decay; /* lock */

    uint32_t huge_counts[HUGE_SIZES]; /* lock: huge blocks in use, by huge_size_of() */
    struct purge_counts dirty_purges; /* lock */
    struct purge_counts muzzy_purges; /* lock */
    size_t huge_gone_pages;           /* lock: of huge blocks given back since the last new one */
    uint32_t huge_gone_stamp;         /* lock: when the last of these became free */
};

static struct arena arenas[ARENAS_MAX] IN_SECTION(arenas) __attribute__((aligned(CACHE_LINE)));

/* Arenas in use are 0 .. arena_count() - 1. */
static unsigned arena_count(void);
static struct arena *arena_at(unsigned index);

/* The arenas that the program makes, by index less ARENAS_MAX; they are never freed, and used again. */
static struct arena *explicit_arenas[ARENA_NUMBERS] IN_SECTION(explicit); /* const once set */
static _Atomic unsigned explicit_count; /* lock: table; only ever grows */

/* All that were ever made of both kinds, in no particular order. */
static unsigned arenas_ever(void);
static struct arena *arena_ever_at(unsigned at);

ALWAYS_INLINE struct arena *arena_of(struct extent *extent)
{
    return likely(extent_arena(extent) < ARENAS_MAX)
               ? &arenas[extent_arena(extent)]
               : explicit_arenas[extent_arena(extent) - ARENAS_MAX];
}

/* Bytes in descriptors of extents that have been made for arenas. */
static size_t descriptor_bytes(void);

/* A descriptor that is the arena's from now on and describes nothing yet. */
static void descriptor_init(struct arena *arena, struct extent *extent);

/* NULL if out of memory. */
static struct extent *descriptor_new_locked(struct arena *arena);
static void descriptor_free_locked(struct arena *arena, struct extent *extent);

/* In builds that track blocks: a descriptor becomes unused, and what is known of blocks of its extent goes. The arena's
 * lock is held. */
static void (*const descriptor_drops_tracks)(struct extent *extent);

/* Puts a descriptor by for a split that is to come, when there may be no memory; false if there is none
 * now. To unreserve makes one of them the next that descriptor_new_locked gives. */
UNUSED static bool descriptor_reserve_locked(struct arena *arena);
UNUSED static void descriptor_unreserve_locked(struct arena *arena);

/* Writes a descriptor and the page map. What is not given is taken from `like`. */
static void descriptor_set(struct extent *extent, uintptr_t start, size_t pages,
                           enum extent_state state, const struct extent *like);

/* The set that a free extent is in. */
static struct extent_set *arena_set_of(struct arena *arena, struct extent *extent);

/* Cuts what is behind the first `pages` off into a new extent of the same kind, which is in no set.
 * NULL if there is no descriptor for it. */
static struct extent *extent_split_locked(struct arena *arena, struct extent *extent, size_t pages);

/* To be told where a huge block is mapped, since one that is given back leaves no extent. */
static void arena_note_new_huge_locked(struct arena *arena, size_t pages);

/* Puts an extent among the free ones of a state, joined with its neighbours. */
static void arena_insert_locked(struct arena *arena, struct extent *extent,
                                enum extent_state state);

static void arena_count_active_locked(struct arena *arena, bool is_huge, size_t pages);
static void arena_uncount_active_locked(struct arena *arena, bool is_huge, size_t pages);

/* Takes a huge extent out of the free ones, for the program. */
static void arena_take_huge_locked(struct arena *arena, struct extent *extent);

/* Pages before the first multiple of `alignment`. */
static size_t extent_lead(struct extent *extent, size_t alignment);

/* Cuts `pages` out of a free extent of `set`, behind its first `lead`; the rest stays in its set,
 * and what is cut is active. NULL if there is no descriptor for what is left over. */
static struct extent *arena_cut_locked(struct arena *arena, struct extent_set *set,
                                       struct extent *extent, size_t lead, size_t pages);

/* Takes the best fit out of a set and cuts it to size. NULL if none fits, or if there is no
 * descriptor for what is left over. */
static struct extent *arena_take_locked(struct arena *arena, struct extent_set *set, size_t pages,
                                        size_t alignment);

/* The free extent right behind `extent`, if both together have at least `pages`; NULL else. */
static struct extent *arena_room_behind_locked(struct arena *arena, struct extent *extent,
                                               size_t pages);

/* Makes an active extent larger at the expense of `next`, which lies behind it. False if there is
 * no descriptor for what is left over. */
static bool arena_expand_locked(struct arena *arena, struct extent *extent, struct extent *next,
                                size_t pages);

/* Whether the pages of the regions are all accounted for: in use, free, or in the hands of a purge;
 * the caller holds the lock. The second walks over all free extents as well, the third over all that
 * the regions have. */
static bool arena_counts_match(struct arena *arena);
static bool arena_is_valid(struct arena *arena);
static bool arena_regions_are_valid(struct arena *arena);

#endif
