/* SPDX-License-Identifier: MIT
 *
 * Extents: runs of pages, each with a descriptor that lies in metadata. An extent is in one state:
 *
 *   ACTIVE    a slab or a large block, or on its way to become one or to leave
 *   CACHED    free, in a stack of some heap (thread/stack.h); its arena counts it as active
 *   DIRTY     free, in its arena, content left over, resident
 *   MUZZY     free, in its arena, given to the kernel by MADV_FREE, perhaps still resident
 *   RETAINED  free, in its arena, no memory behind it; is_zero says whether it reads as zero
 *   MOVING    taken out of its set by a purge that runs without the lock
 *   UNUSED    the descriptor describes nothing and waits in its arena's list
 *
 * Descriptors are never unmapped, so a stale pointer to one can be read and then recognised.
 */
#ifndef MALLOW_EXTENT_H
#define MALLOW_EXTENT_H

#include "../base/atomic.h"
#include "../base/check.h"
#include "../base/list.h"
#include "pagemap.h"
#include "secret.h"

struct heap;

enum extent_state {
    EXTENT_UNUSED, /* 0: also what pagemap_nothing() reads as */
    EXTENT_ACTIVE,
    EXTENT_CACHED,
    EXTENT_DIRTY,
    EXTENT_MUZZY,
    EXTENT_RETAINED,
    EXTENT_MOVING,
};

/* What realloc did when it made a block of pages smaller, see api/realloc.c; and malloc, which may have had one that is
 * larger than was asked for. */
enum shrunk {
    SHRUNK_NEVER, /* nothing, or the block has grown since */
    SHRUNK_ROOMY, /* nothing; it was made larger, see stack_pop_about */
    SHRUNK_CUT,   /* its end was given back */
    SHRUNK_KEPT,  /* it kept all its pages */
};

/* Whose list a slab is in, and who may touch its fields. The transitions, and who may make them,
 * stand in docs/architecture.md. */
enum slab_place {
    SLAB_NONE,    /* in no list: no owner and (almost) full, or in its owner's hands for a moment */
    SLAB_CURRENT, /* owner: its heap allocates from it */
    SLAB_READY,   /* owner: in its heap's list of slabs with free slots */
    SLAB_WAITING, /* owner: full not long ago; joins the ready ones after some more frees */
    SLAB_SHARED,  /* no owner, or one that will take it out: in its pool's list; lock: pool */
    SLAB_COMMON,  /* OWNER_COMMON: several heaps take blocks from it, see common.h; lock: pool */
    SLAB_DEPOT,   /* OWNER_DEPOT: heaps fill their magazines from it, see depot.h; lock: pool */
    SLAB_DIRECT, /* OWNER_DIRECT: the program takes slots past the heaps, see direct.h; lock: direct */
};

/* The owner of what is no slab: never equal to a heap, and never taken over. */
#define OWNER_NOT_A_SLAB ((struct heap *)-1)

/* The owners of a slab of a depot, of one of direct blocks, and of a common one. The order counts: free
 * compares once to learn whether what it got may go into a list of its heap (OWNER_DEPOT and above), and
 * once to learn whether a heap, or nobody, owns it (below OWNER_GUARDED). */
#define OWNER_DEPOT ((struct heap *)-2)
#define OWNER_DIRECT ((struct heap *)-3) /* of a large block too while the program holds it */
#define OWNER_COMMON ((struct heap *)-4)

/* The owner of a block that is a sample of a profile, see profile/sample.h: an extent of its own. */
#define OWNER_SAMPLED ((struct heap *)-5)

/* The owner of all blocks of no bytes, see slots/hollow.h, and of all guarded ones, see slots/guarded.h.
 * Each heap has an address below the last of these. */
#define OWNER_HOLLOW ((struct heap *)-6)
#define OWNER_GUARDED ((struct heap *)-7)

struct common;
struct track_table;

/* A free slot holds the link to the next one, and nothing else of ours. In secure and debug builds
 * the link is encoded with the process's keys and the slot's own address: what the program writes
 * there leads to no address of a slot, and a link that is copied elsewhere leads nowhere. */
struct slot {
    uintptr_t link;
};

ALWAYS_INLINE uintptr_t slot_link_key(const struct slot *slot)
{
    return MW_CODED_LINKS ? ((uintptr_t)slot ^ secrets.link) * secrets.link_odd : 0;
}

/* What stands behind a slot in its list; NULL at the end. Who follows it looks at it first: see
 * slot.h. */
ALWAYS_INLINE struct slot *slot_next(const struct slot *slot)
{
    return (struct slot *)(slot->link ^ slot_link_key(slot));
}

ALWAYS_INLINE void slot_set_next(struct slot *slot, struct slot *next)
{
    slot->link = (uintptr_t)next ^ slot_link_key(slot);
}

/* Puts a slot first in a list. Whoever finds it there finds its link. */
ALWAYS_INLINE void slot_push(struct slot **list, struct slot *slot)
{
    check(slot != NULL && *list != slot); /* a slot is not pushed twice */
    slot_set_next(slot, *list);
    order_stores();
    *list = slot;
}

/* The side of a descriptor that malloc and free use, most of it while the extent is a slab; one
 * cache line. "Owner" is the thread whose heap is the slab's owner; slabs of the depot and common
 * slabs have none, and what is the owner's in others is under their pool's lock.
 *
 *   used == left + bias == slots that are out: with the program, in a heap's list, magazine or
 *           outbox, or freed by other threads and not yet collected
 *   used <= carved <= capacity
 *   carved - used == length of `local`; not in a common slab, whose table has the free slots */
struct slab {
    union {
        struct slot *local;   /* owner thread */
        struct extent *below; /* of free pages in a chain, see stack.h: who holds the chain */
    };
    uint64_t reciprocal; /* const while a slab: 2^64 / slot_size, rounded up; else 1 */
    union {
        uint32_t left;  /* owner thread: frees until something has to be done */
        uint32_t stamp; /* of free pages: when they became free, by clock_stamp(); who holds them */
    };
    union {
        uint32_t bias;         /* owner thread: used slots beyond `left` */
        uint32_t sample_stack; /* of a sampled block: const; its call stack in the store */
        uint32_t given_back;   /* of retained pages: so many were resident before; lock: arena */
    };
    union {
        uint32_t carved;       /* owner thread: slots that have been made */
        uint32_t sample_epoch; /* of a sampled block: const; profile.epoch when it was taken */
    };
    union {
        uint32_t capacity; /* const while a slab */
        struct {           /* of a sampled block: const; see sample.h */
            uint16_t sample_thinning;
            bool sample_is_slot; /* it is in the place of a slot */
        };
    };
    uint32_t slot_size; /* const while a slab; 0: the extent is no slab */
    uint8_t class;      /* const while a slab */
    uint8_t place;      /* enum slab_place; owner thread, or lock: pool */
    bool was_touched;   /* const while a slab: its pages were in use before */
};

/* Pages without access around a huge block, see fence.h; all 0: none. */
struct fence {
    uint32_t front; /* pages */
    uint32_t tail;  /* pages */
    uint8_t ways;   /* enum of os_guard: a set of those that were used */
    bool is_cut;    /* of the tail only the first page and the last are without access */
};

/* Words of bits that tell which of 64 slots the program holds; of two the second is the owner thread's, and it
 * holds those whose bits differ, see slot.h. */
#define LIVE_WORDS (MW_PLAIN_BITS ? 2u : 1u)

struct extent {
    struct slab slab; /* first: the hit path reaches it without an offset */

    uintptr_t start;        /* const while active */
    _Atomic uint32_t pages; /* lock: arena, or who holds the extent */
    _Atomic uint8_t state;  /* lock: arena, or who holds the extent */
    bool is_huge;           /* a mapping of its own, in no region; const while active */
    _Atomic uint16_t arena; /* const: the index of its arena; atomic: see pagemap_set */
    struct region *region;  /* const while active; NULL if huge */

    /* The second line has all that other threads need to free slots, while the owner writes the first. */
    _Atomic(struct heap *) owner; /* atomic; NULL: whoever frees next may take the slab */
    _Atomic uint64_t remote;      /* atomic: slots freed by others, see slab.h */
    struct link link; /* lock: arena, pool, or owner thread: the list of its state or place */
    struct extent *bin_next; /* lock: arena: in a set's bin */
    union {
        struct extent *bin_prev; /* lock: arena */
        uintptr_t slots;         /* const while a slab: `start` once more */
        _Atomic uint64_t tail;   /* of a large block, see canary.c; who holds it */
    };
    _Atomic uint32_t used_at_last; /* atomic: used slots when the slab lost its owner; in a common
                                      slab the blocks that are out */
    uint8_t class;                 /* const while a slab: slab.class once more */
    bool is_zero;                  /* lock: arena: the pages read as zero */
    uint8_t shrunk;                /* enum shrunk; who holds the block; of a free one left over */
    bool is_decommitted; /* lock: arena: a hook took the memory, and another has to give it
                                      back before use, see arena/hooks.h */
    union {
        struct common *common; /* lock: pool: the table of a common slab */
        size_t sample_size;    /* of a sampled block: const; the size that it counts with */
    };
#if MW_TRACK
    _Atomic(struct track_table *) tracks; /* atomic: what is known of its blocks, see track.h */
#endif
#if MW_CANARY
    union {
        uint64_t canary;          /* const while a slab: its key */
        _Atomic size_t requested; /* of a large block, bytes; who holds it */
    };
#endif
#if MW_FENCES
    struct fence fence; /* who holds the extent */
    uint8_t post;       /* const while a slab: 0, or how its last page is guarded, see slab.h */
#endif
#if MW_SLOT_BITMAP
    _Atomic uint64_t
        live[SLAB_SLOTS_MAX / 64 * LIVE_WORDS]; /* atomic: the program holds the slot */
#endif
} __attribute__((aligned(CACHE_LINE)));

static_assert(SLAB_SLOTS_MAX % 64 == 0 || !MW_SLOT_BITMAP, "a bit per slot in whole words");
static_assert(sizeof(struct slab) <= CACHE_LINE, "the slab side fits in one line");
static_assert(offsetof(struct extent, arena) < CACHE_LINE,
              "of its own a heap reads the owner alone there");
static_assert(offsetof(struct extent, owner) == CACHE_LINE, "others read no first line");
static_assert(offsetof(struct slab, below) == offsetof(struct slot, link), "linked as slots are");
static_assert(MW_SLOT_BITMAP || sizeof(struct extent) == 2 * CACHE_LINE, "two lines");

/* Of a region, what the kernel may make of it. */
enum huge_pages {
    HUGE_PAGES_REFUSED,   /* none: it was told so */
    HUGE_PAGES_AS_SYSTEM, /* as for any memory of any program */
    HUGE_PAGES_ASKED,     /* wherever it can, see arena_is_dense */
};

/* Address space from the OS that is cut into extents; aligned to 2 MiB unless the OS had little
 * left. */
struct region {
    struct region *next;
    uintptr_t start;
    size_t size;
    _Atomic(enum huge_pages) huge_pages; /* once refused, it stays so */
    _Atomic size_t huge_page_bytes;      /* for which the kernel was asked */
};

ALWAYS_INLINE unsigned extent_arena(struct extent *extent)
{
    return atomic_get(&extent->arena);
}

ALWAYS_INLINE enum extent_state extent_state(struct extent *extent)
{
    return (enum extent_state)atomic_get(&extent->state);
}

ALWAYS_INLINE size_t extent_pages(struct extent *extent)
{
    return atomic_get(&extent->pages);
}

ALWAYS_INLINE size_t extent_size(struct extent *extent)
{
    return extent_pages(extent) << os_page_shift;
}

ALWAYS_INLINE uintptr_t extent_end(struct extent *extent)
{
    return extent->start + extent_size(extent);
}

ALWAYS_INLINE bool extent_is_slab(struct extent *extent)
{
    return extent->slab.slot_size != 0;
}

/* What every extent is that is no slab. With this reciprocal a block begins at its start alone. */
ALWAYS_INLINE void extent_make_plain(struct extent *extent)
{
    extent->slab.reciprocal = 1;
    atomic_set(&extent->owner, OWNER_NOT_A_SLAB);
}

/* Sets the words of the first and the last granule: what neighbours and free look at. */
static void extent_map_ends(struct extent *extent);
static void extent_unmap_ends(struct extent *extent);

/* Free extents of one state, each in two lists: that of its size (`bins`), and one from the oldest
 * to the youngest (`lru`). A bin per size up to 8 pages, then four per doubling; the last has all
 * larger ones.
 *
 *     bin     0   1  ...  7      8      9     10     11     12  ...
 *     pages   1   2  ...  8   9-10  11-12  13-14  15-16  17-20  ...
 *
 * filled has a bit per bin that is not empty. */
#define EXTENT_BINS 64u

struct extent_set {
    _Atomic uint64_t filled;          /* lock: arena; atomic for who only looks */
    struct extent *bins[EXTENT_BINS]; /* lock: arena */
    struct link lru;                  /* lock: arena; the oldest is first */
    size_t pages;                     /* lock: arena */
    size_t count;                     /* lock: arena */
};

static_assert(EXTENT_BINS <= 64, "a bit per bin in `filled`");

/* The bin of a size, and the most pages that belong there; the last has no limit. */
static unsigned extent_bin(size_t pages);
static size_t extent_bin_pages(unsigned bin);

static void extent_set_insert(struct extent_set *set, struct extent *extent);
static void extent_set_remove(struct extent_set *set, struct extent *extent);

/* An extent of at least `pages`, of the smallest size that a look at a few finds, the lowest of
 * these; it stays in the set. NULL if there is none that is sure to fit without a long search: one
 * less than a quarter larger than `pages` may be missed. */
static struct extent *extent_set_fit(struct extent_set *set, size_t pages);
static struct extent *extent_set_oldest(struct extent_set *set);

/* Whether there may be one of at least so many pages. Any thread; others may change the set meanwhile. */
ALWAYS_INLINE bool extent_set_may_fit(struct extent_set *set, size_t pages)
{
    return atomic_get(&set->filled) >> extent_bin(pages) != 0;
}

/* What holds for every extent that is described; who holds it, or its arena's lock. */
static bool extent_is_valid(struct extent *extent);

/* Whether the page map names an extent that is no slab at its ends alone. Walks over its pages. */
static bool extent_is_mapped_by_ends(struct extent *extent);

/* Walks over all of them. */
static bool extent_set_is_valid(struct extent_set *set, enum extent_state state);

#endif
