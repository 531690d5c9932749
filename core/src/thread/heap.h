/* SPDX-License-Identifier: MIT
 *
 * Heaps: what a thread allocates from. A heap belongs to one thread at a time; only that thread
 * touches it, except `cache`, which others may rob of blocks that lie there too long.
 *
 *   malloc pops free[class]           -> empty: heap_refill
 *   free   pushes to the slab's list  -> its countdown ends: heap_slab_event
 *                                     -> somebody else's slab: free_slow, remote.h
 *
 * free[class] holds slots of bins[class].current, slots of slabs without an owner that this thread
 * freed, and, if there is no current slab, blocks of common slabs.
 */
#ifndef MALLOW_HEAP_H
#define MALLOW_HEAP_H

#include "../slots/common.h"
#include "../slots/large.h"

/* Slots that another heap's slab gets in one atomic operation. */
#define OUTBOX_BATCH 32u
#define OUTBOX_BYTES (8 * KiB) /* or fewer slots, if they are large */
#define OUTBOXES 8u

/* Large blocks that a heap keeps for its next requests of such a size: how many, and bytes. */
#define CACHE_BLOCKS 16u
#define CACHE_BLOCK_MAX (8 * MiB)
#define CACHE_MAX (16 * MiB)

/* Bytes of empty slabs that a heap keeps, so that a program that goes up and down does not make and
 * destroy them all the time; they go before the heap takes memory that is not resident. */
#define HEAP_EMPTY_MAX (2 * MiB)

/* Slots that the hit path gets at a time. Where its list ends, the clock may be read (tick.c): a program
 * that falls asleep and calls now and then must come there soon, above all if it has just given memory
 * back. */
#define HEAP_LIST_MAX 1024u
#define HEAP_LIST_SHORT 32u

/* Slabs with free slots that a heap owns of a class at most: the thread may sleep at any time, and
 * what it owns nobody else can use. */
#define READY_MAX MW_LIMIT(64u, 6u)

/* Freed slots of slabs without an owner that go straight to the list of their class, between two times
 * that it is empty; fewer if they are large. */
#define KEPT_SLOTS 16u
#define KEPT_BYTES (256 * KiB)

/* How many slots a kept one counts, while lists are short, on the way to the next look at the clock: a
 * list that frees go to may not end before a program falls asleep. */
#define KEPT_COST_SHORT 4

/* Ready slabs that are looked at to find the fullest, and that a heap keeps when it hands on. */
#define READY_TRIES 4u

struct bin {
    struct extent *current; /* allocated from; NULL at first */
    struct link ready;      /* slabs with free slots */
    struct link waiting;    /* slabs with too few of them yet */
    uint32_t ready_count;   /* length of `ready` */
    uint16_t common_bytes;  /* of first blocks taken from common slabs, see heap_common.c */
    uint8_t made;           /* slabs made so far: the next one is larger */
    uint8_t kept;           /* slots that joined the list by heap_keep_slot since it was empty */
};

/* Slots of one slab of another heap, on their way there. */
struct outbox {
    struct extent *slab; /* NULL: empty */
    struct slot *head;
    struct slot *tail;
    uint32_t count;
    uint32_t most; /* slots that make it go out */
};

struct cached_block {
    _Atomic(struct extent *) extent; /* atomic: put by the owner, taken by anybody */
    _Atomic uint32_t sweep;          /* the sweep during which it was put */
};

static_assert(CLASSES <= 64, "a bit per class");

/* What every call of the slow path looks at comes first, so that a thread with a few blocks touches one
 * page of its heap. */
struct heap {
    struct slot *free[CLASSES]; /* the hit path's lists */
    int32_t budget;             /* slots to hand out until the clock is read */
    uint32_t list_max;          /* slots that are handed out at a time */
    bool is_slow;               /* the program calls rarely: slots are handed out one by one, and
                                   every call reads the clock */
    uint32_t cache_pages[CACHE_BLOCKS]; /* of each block, 0: none; out of date when it was robbed */
    uint32_t cache_used;                /* a bit per block */
    uint32_t cache_latest;              /* the block that was put last */
    size_t cache_bytes;                 /* by cache_pages */
    struct arena *arena;
    uint64_t bins_used;     /* a bit per class whose bin may have slabs */
    size_t empty_bytes;     /* in slabs without used slots */
    uint64_t tick_ms;       /* when the clock was read last */
    uint64_t released_ms;   /* heaps.tick_ms when memory went back to an arena last */
    uint32_t busy_calls;    /* calls close together since the last rest */
    uint64_t sweep_ms;      /* when empty slabs were given back last */
    unsigned exit_rounds;   /* how often the end of the thread was put off */
    struct heap *next;      /* const: all heaps ever made */
    struct heap *next_idle; /* lock: heaps */
    struct bin bins[CLASSES];
    struct outbox outboxes[OUTBOXES];
    struct cached_block cache[CACHE_BLOCKS];
};

/* What all heaps share. */
struct heaps {
    _Atomic(struct heap *) all; /* every heap ever made; they are never freed */
    _Atomic uint64_t tick_ms;   /* when time last passed for the arenas */
    _Atomic uint32_t sweep;     /* counts up */
    _Atomic bool dirty_pending; /* much free memory was resident at the last tick */
    _Atomic uint32_t in_use;    /* heaps that threads have now */
};

static struct heaps heaps;

ALWAYS_INLINE struct extent *slab_at(struct link *link)
{
    return container_of(link, struct extent, link);
}

static void heap_init(struct heap *heap, struct arena *arena);

/* A block of a class from common slabs, more of them in the heap's list; NULL if there is none. */
static struct slot *heap_take_common(struct heap *heap, unsigned class);

/* Pages for a slab, NULL if out of memory. */
static struct extent *heap_alloc_pages(struct heap *heap, size_t pages);

/* Keeps a block of a common slab that the program freed for the heap's next request of its class. False
 * if the heap does not need it. */
static bool heap_keep_first(struct heap *heap, struct extent *extent, struct slot *slot);

/* A slot of a class when the heap's list of it is empty; NULL if out of memory. Only slots of the
 * class's own slabs are aligned to what divides their size. */
static struct slot *heap_refill(struct heap *heap, unsigned class, bool must_be_aligned);

/* The same if the current slab has local slots, which is the common case. */
static struct slot *heap_take_local(struct heap *heap, struct extent *extent);

/* The countdown of a slab that the heap owns has ended. */
static NOINLINE void heap_slab_event(struct heap *heap, struct extent *extent);

/* Whether a heap takes over a slab that it frees into. One that does not allocate such slots does
 * not, nor one that has plenty: memory must not gather where nobody needs it. */
ALWAYS_INLINE bool heap_wants_slab(struct heap *heap, unsigned class)
{
    struct bin *bin = &heap->bins[class];
    return bin->current != NULL && bin->ready_count < READY_MAX;
}

/* Puts a slab that the heap has just become the owner of where it belongs. */
static void heap_adopt(struct heap *heap, struct extent *extent);

/* Frees a slot into a slab that the heap does not own. */
static void heap_free_remote(struct heap *heap, struct extent *extent, struct slot *slot);

/* Keeps a slot of a slab that has no owner, which the program freed, for the heap's next request of its
 * class, and leaves the slab as it is. False if the heap does not need it. */
static bool heap_keep_slot(struct heap *heap, struct extent *extent, struct slot *slot);

/* Gives slots of slabs that the heap does not own back to them. */
static void heap_return_others(struct heap *heap, struct slot *list);

/* Sends all frees that wait in outboxes. */
static void heap_flush_outboxes(struct heap *heap);

/* What the heap freed into a slab before it became the owner becomes local. */
static void heap_empty_own_outbox(struct heap *heap, struct extent *extent);

/* A large block. `alignment` is a power of two. NULL if out of memory. */
static struct extent *heap_alloc_large(struct heap *heap, size_t pages, size_t alignment);
static void heap_free_large(struct heap *heap, struct extent *extent);
static void heap_flush_cache(struct heap *heap);

/* Gives everything back that the program does not hold: slabs, cached blocks, frees on their way.
 * The heap can be used on. */
static void heap_collect(struct heap *heap);

/* Brings the hit path's lists, or one, back to the slabs that they come from. */
static void heap_return_list(struct heap *heap, unsigned class);
static void heap_return_lists(struct heap *heap);

/* Gives back the slabs without used slots, the current ones too if nothing of them is in use. */
static void heap_release_empty(struct heap *heap);

/* Takes everything out of the way when the kernel gives no more memory. */
static void heap_reclaim(struct heap *heap);

/* Memory went back to an arena, and the program may rest now. */
static void heap_note_release(struct heap *heap);

/* Gives back a slab that no slot of is used; it is in no list. */
static void heap_release_slab(struct heap *heap, struct extent *extent);

/* Takes a slab out of the heap's list that it is in. */
static void heap_unlist(struct heap *heap, struct extent *extent);

/* Gives up one slab that the heap owns and that is in no list. */
static void heap_abandon_slab(struct heap *heap, struct extent *extent);

/* Gives up all slabs, for the thread ends. */
static void heap_abandon(struct heap *heap);

/* Takes cached blocks that were put before the last sweep, or all, back to the arenas. Any thread. */
static void heap_rob_cache(struct heap *heap, uint32_t sweep, bool all);

/* How long the lists are, and how soon the clock is read again. */
static void heap_set_pace(struct heap *heap);

/* The part of a tick that concerns all threads; one of them does it. */
static void global_tick(uint64_t now_ms);

/* Lets time pass: decay of the arenas, sweeps. Any heap of the calling thread. */
static void heap_tick(struct heap *heap);

static bool heap_check(struct heap *heap);

#endif
