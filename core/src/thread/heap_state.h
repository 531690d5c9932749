/* SPDX-License-Identifier: MIT
 *
 * Heaps: what a thread allocates from. A heap belongs to one thread at a time; only that thread
 * touches it, except `stacks`, which anybody may rob, and robbed_pages, by which the robber tells.
 *
 *   small (up to SMALL_MAX)   malloc pops free[class], slots of bins[class].current
 *                             free pushes to the slab's own list, if the heap owns the slab
 *   medium (up to SLOT_MAX)   malloc pops free[class], free pushes there: a magazine, filled from
 *                             and emptied to the depot of the arena (magazine.h)
 *   pages                     large blocks and the pages of slabs: stacks by page class (stack.h);
 *                             while they are private, malloc pops free[class] of a block class, and
 *                             free pushes there
 *
 * free[class] holds blocks of common slabs instead where a small class has no current slab, and a
 * magazine may hold blocks from holes.
 */
#ifndef MALLOW_HEAP_STATE_H
#define MALLOW_HEAP_STATE_H

#include "../arena/limit.h"
#include "../slots/common.h"
#include "../slots/depot.h"
#include "../slots/direct.h"
#include "../profile/sample.h"
#include "../slots/large.h"

/* Slots that the hit path gets at a time: while the program calls rarely, while free memory waits to go
 * back to the kernel or the heap is new, and at most. Where the list ends, the clock may be read (tick.c):
 * a program that falls asleep and calls now and then must come there soon. So lists become longer only
 * step by step, while ticks follow each other quickly. */
#define LIST_MAX_BUSY 1024u
#define LIST_MAX_WAITING 32u
#define LIST_MAX_IDLE 1u

/* Slots that are carved first of a fresh slab while lists are short: a thread that lives briefly has less to
 * return. */
#define FIRST_CARVED 8u

/* So much free memory that is still resident, in the heap's stacks or in an arena that it has just given
 * pages to, makes the lists short. */
#define WAITING_BYTES (1 * MiB)

/* Slabs with free slots that a heap owns of a class at most: the thread may sleep at any time, and
 * what it owns nobody else can use. While there is no other heap it may own more, so that all frees are hits;
 * of these, slabs that are almost empty serve other classes too (heap_common.c). */
#define READY_MAX MW_LIMIT(64u, 6u)
#define READY_MAX_ALONE MW_LIMIT(512u, 12u)

/* Ready slabs that are looked at to find the fullest, and that a heap keeps when it hands on the
 * rest. */
#define READY_TRIES 4u

#define OUTBOXES 8u

/* The slabs of a small class that a heap owns. */
#define MADE_MOST 16u

struct bin {
    struct extent *current; /* allocated from; NULL at first */
    struct link ready;      /* slabs with free slots, none of them empty */
    struct link waiting;    /* slabs with too few of them yet */
    uint16_t ready_count;   /* length of `ready` */
    uint16_t common_bytes;  /* of first blocks taken from common slabs, see keep.h */
    uint8_t made;           /* slabs made so far, up to MADE_MOST: the next one is larger */
    bool is_draining : 1;   /* other slabs have become empty since slots were handed out */
    bool is_scarce : 1;     /* slabs are nearly full or many, see keep.h */
};

/* The free slots of a medium class that a heap holds: the list is heap->free[class]. */
struct magazine {
    uint8_t emptied : 7; /* visits to the depot to empty it since it was filled there */
    uint8_t was_filled_from_holes : 1; /* then there may be slots of common slabs in the list */
};

/* Slots of one slab that the heap does not own, on their way there. */
struct outbox {
    struct extent *slab; /* NULL: empty */
    struct slot *head;
    struct slot *tail;
    uint32_t count;
    uint32_t most; /* slots that make it go out */
};

/* What a heap has moved of a class since it was made, whichever threads used it: counted where lists
 * are handed out and returned, not where blocks are. Plain numbers, which the owner alone writes;
 * others may read them at any time, and get those of some moment.
 *
 *   blocks that the program was given == handed + puts - returned - length of the list */
struct class_counts {
    uint64_t handed;   /* slots that came into the list from slabs */
    uint64_t returned; /* slots that left the list for their slabs */
    uint64_t sent;    /* slots that the program freed into slabs of others: kept, or on their way */
    uint64_t fills;   /* how often the list was filled */
    uint64_t flushes; /* how often slots were returned */
    uint64_t slabs;   /* slabs made */
};

static_assert(CLASSES <= 64, "a bit per class");
static_assert(LIST_MAX_BUSY % LIST_MAX_WAITING == 0, "lists are doubled up to the most");

/* Slots that wait before they are free, see delay.h. */
#define DELAY_FRESH 32u
#define DELAY_RANDOM 64u /* a number of six bits */
#define DELAY_FIFO 128u
#define DELAY_LINE_PLACES (DELAY_FRESH + DELAY_RANDOM + DELAY_FIFO)
#define DELAY_PLACES (2 * DELAY_LINE_PLACES)
#define DELAY_SMALL_MAX ((size_t)512)

struct delay_line {
    uint32_t fresh_count;          /* of `fresh`; less than DELAY_FRESH when free returns */
    bool has_unsettled;            /* one of `fresh` may be unsettled */
    uint32_t first, end;           /* of fifo: numbers of its oldest and of the next to come */
    size_t bytes;                  /* of all of them */
    size_t most;                   /* bytes that may wait; in a lone heap strength.delay_bytes */
    uint64_t fresh[DELAY_FRESH];   /* those freed last, in their order; 0: nothing is there */
    uint64_t random[DELAY_RANDOM]; /* 0: nothing is there */
    uint64_t fifo[DELAY_FIFO];     /* a ring; 0: nothing is there */
};

struct delay {
    struct delay_line small;  /* of slots up to DELAY_SMALL_MAX */
    struct delay_line larger; /* of others, so that a few of these do not push all small ones out */
    uint64_t choices;         /* random numbers to come, six bits each, and a 1 above them */
    uint64_t numbers;         /* see random_next */
};

/* A put into a list that chance has chosen before it is made, see chance.h. */
struct candidate {
    double points;    /* the chance of each put to be one is 1 - exp(-points) */
    unsigned largest; /* the list that it is the chance of: no larger slots or blocks are put */
    uint8_t thinning; /* of the samples that come of it */
    uint32_t behind;  /* steps of until_tick between the next tick and it; CANDIDATE_UNDRAWN: it
                         comes before that, or was not drawn */
};
#define CANDIDATE_UNDRAWN UINT32_MAX

/* What every call of the slow path looks at comes first, so that a thread with small blocks touches
 * one page of its heap. */
struct heap {
    struct slot *free[LIST_CLASSES]; /* the hit path's lists */
    /* malloc looks up the class of requests up to so many bytes: see heap_set_way. */
    size_t table_most;
    int32_t until_tick;     /* slots and blocks to hand out or take until the clock is read */
    uint16_t list_max;      /* slots that are handed out at a time: one of LIST_MAX_* */
    uint16_t uncut_most;    /* a list of a slab that is no longer is handed out whole */
    uint8_t stack_resident; /* of 64 pages in stacks, so many were resident at the last probe */
    uint8_t probe_pause;    /* how often the last probe may still be believed */
    uint8_t way_ticks;      /* ticks, see heap_look_at_lists */
    bool is_counting;       /* every call adds to the next two, see thread_count */
    _Atomic uint8_t moves;  /* how often it is between moving_begin and moving_end; by the owner */
    uint64_t allocated;     /* bytes, since the thread began to count */
    uint64_t deallocated;   /* bytes */
    struct arena *arena;
    size_t magazine_bytes;      /* what the limits of the magazines amount to */
    uint64_t classes_used;      /* a bit per class that may have slabs or a magazine */
    _Atomic size_t stack_pages; /* in stacks, see stack.h; written by the owner */
    size_t stack_limit;       /* pages; above it the older half of each stack goes to the arenas */
    size_t stack_alarm;       /* pages; below it lists have room: the limit, or WAITING_BYTES
                               while the lists are long */
    uint64_t listed_given;    /* blocks given out of lists when it was looked at last */
    size_t slab_pages_due;    /* see heap_put_slab_pages */
    bool takes_blocks;        /* the thread has allocated large blocks since the heap settled */
    bool is_private;          /* the chains of block classes lie in lists, not in cells */
    bool is_strict;           /* its thread may make no call about memory, see os/os.h */
    bool is_orphan;           /* its thread is not of this process, see orphan.h */
    uint16_t busy_calls;      /* ticks close together since the heap became idle,
                                 or since its lists became longer */
    uint16_t pace;            /* what the last tick set until_tick to */
    _Atomic uint64_t tick_ms; /* when the thread read the clock last; written by the owner */
    uint64_t settled_ms;      /* when heap_settle was called last */
    uint32_t awake_slots;     /* taken and given since the last pause, see heap_is_steady */
    uint32_t built;       /* the block that realloc copied last, to make it larger: see realloc.c */
    uint64_t released_ms; /* heaps.kept_house_ms when much became free last: as long as it is
                                  the same, nobody has looked at that memory */
    _Atomic size_t robbed_pages; /* taken by robbers, and still counted in stack_pages */
    void *thread;        /* lock: heaps; whose it is, by os_thread_id(); NULL: it waits for one */
    unsigned fork_depth; /* lock: heaps; forks between the program's start and that thread's */
    uint32_t sent_home;  /* slots that went to slabs of others, beyond a share of all, see keep.h */
    struct arena *bound; /* the explicit arena that the thread allocates from; NULL: none */
    bool is_uncached;    /* the thread wants nothing cached */
    bool is_sampling;    /* takes samples for a profile, see sampling.h */
    bool may_sample;     /* the thread wants to take part: thread.prof.active */
    uint8_t exit_rounds; /* how often the end of the thread was put off */
    int32_t tick_rest;   /* not 0: until_tick ends at a candidate, see chance.h */
    size_t cached_most;  /* the largest block that it wants cached; 0: as the heap does */
    struct heap *next;   /* const: all heaps ever made */
    struct heap *next_idle;                        /* lock: heaps */
    _Atomic(struct extent *) stacks[PAGE_CLASSES]; /* atomic: cells, anybody takes from them */
    /* Of small classes: slots that the list has room for, see keep.h; 0: not filled yet. Of others: minus the length
     * of the list. */
    int16_t rooms[LIST_CLASSES];
    struct bin bins[SMALL_CLASSES];

    /* From here to the outboxes nothing is reset while the process lives. */
    struct class_counts counts[CLASSES];
    uint64_t
        puts[LIST_CLASSES]; /* slots that the program freed into the list; of block classes less
                                    the length of the list: blocks that it was given from there */
    uint64_t
        large_counts[LARGE_CLASSES]; /* large blocks that the program was given past the lists */

    struct outbox outboxes[OUTBOXES];
    struct magazine magazines[MEDIUM_CLASSES];
    /* How long the list of a medium or block class may be; 0: the thread does not allocate the class, the stack is
     * public, or it has no room. */
    int16_t limits[LIST_CLASSES - SMALL_CLASSES];
    int16_t least[BLOCK_CLASSES]; /* the length that a list of blocks had at least, see chains.h */
#if MW_DELAY_FREE
    struct delay delay;
#endif

    /* Of what a thread that counts holds: allocated - deallocated. */
    uint64_t held_before; /* when it last let the peak begin anew */
    uint64_t held_most;   /* since then, beyond that */

    uint64_t sample_known; /* a bit per class: sample_at says when a sample comes */
    uint32_t
        sample_at[CLASSES]; /* counts.handed when the next sample is due, see heap_until_sample */
    uint32_t until_next[CLASSES]; /* heap_until_sample after that sample, and 1; 0: not known */
    char profile_name[32];        /* thread.prof.name */
    struct sampler sampler;
    uint8_t sample_thinning[CLASSES];     /* by which sample_at was chosen, see sample.h */
    uint8_t mark_thinning[BLOCK_CLASSES]; /* the same of the block on top of a cell, see stack.h */
    struct candidate candidate;           /* what until_tick may end at */
    size_t listed_pages;           /* of stack_pages: in lists, when they were counted last */
    unsigned listed_end;           /* while is_private: page classes from here on stay in cells */
    unsigned listed_most;          /* what that might have been */
    bool has_unlisted;             /* since then a block was put into a cell, perhaps above them */
    struct extent *listed_block;   /* the last one that came out of a list, see chance.h */
    bool listed_is_sample;         /* its turn was a sample */
    uint64_t interval_bytes;       /* what the program was given when interval_note looked last */
    size_t stack_pages_before;     /* stack_pages at the last tick, less what overflowed since */
    uint64_t blocks_given;         /* large blocks given to the program by then; 0: not counted */
    uint32_t giving_up_ticks;      /* ticks in a row in which blocks came back and none was given */
    uint32_t since_look;           /* taken and given since slots_back was counted */
    int64_t slots_back;            /* medium slots: returned - handed + in magazines, by then */
    uint64_t classes_looked;       /* medium classes that this is of, a bit each */
    bool clears_up;                /* by the last tick, see heap_clears_up */
    bool gave_up;                  /* medium slots, at some look; not so many were taken since */
    uint8_t given_up_doublings;    /* of GIVEN_UP, see heap_gives_up_slots */
    int64_t slots_came;            /* back, at looks in a row at which half of all did so */
    uint8_t stack_doublings;       /* of the least that the stacks may hold, see stack_least */
    uint8_t shrinks_to_keep;       /* slots that realloc leaves as they are, see realloc.c */
    uint32_t shrink_pages_to_keep; /* pages that it leaves to blocks which become smaller */
    uint32_t shrunk;               /* the block that it copied last, to make it smaller */
    size_t stack_left;    /* pages that left the stacks for want of room since the heap settled, */
    size_t stack_fetched; /* and those that came back; each counts in one of both */
};

/* A heap begins where a page does. */
static_assert(offsetof(struct heap, counts) + SMALL_CLASSES * sizeof(struct class_counts) <= 4096,
              "a thread that allocates small blocks writes to one page of its heap");
static_assert(offsetof(struct heap, limits) +
                      (CLASS_OF(8 * KiB) - SMALL_CLASSES) * sizeof(int16_t) <=
                  2 * 4096,
              "one that allocates medium ones of up to 8 KiB, or frees those of others, to two");

/* The slots and blocks until the next tick; the field alone may end before that, see chance.h. */
ALWAYS_INLINE int32_t heap_until_tick(const struct heap *heap)
{
    return heap->until_tick + heap->tick_rest - (heap->tick_rest != 0);
}

/* How many slots are handed out at a time. A slab's list that is not much longer is handed out whole: to cut it takes a
 * walk over slots that are not in the cache, each found by the one before. That is for who needs the clock soon: a busy
 * thread is through the longest list in no time, though its lists be short because memory waits. */
#define UNCUT_TIMES 8u
ALWAYS_INLINE void heap_set_list_max(struct heap *heap, uint32_t most, bool is_busy)
{
    heap->list_max = (uint16_t)most;
    heap->uncut_most = (uint16_t)(most == LIST_MAX_IDLE ? 1
                                  : is_busy             ? LIST_MAX_BUSY
                                            : size_min(UNCUT_TIMES * most, LIST_MAX_BUSY));
}

/* Whether the current slab of a class has so few free slots that one of the ready ones serves better. */
ALWAYS_INLINE bool heap_prefers_ready(struct bin *bin)
{
    struct extent *extent = bin->current;
    return slab_used(extent) + slab_slots_wanted(extent) > extent->slab.capacity &&
           bin->ready_count != 0 && atomic_get(&extent->remote) == 0;
}

/* What all heaps share. */
struct heaps {
    _Atomic(struct heap *) all;       /* every heap ever made; they are never freed */
    _Atomic uint64_t kept_house_ms;   /* when housekeeping for all threads was done last */
    _Atomic uint64_t robbed_ms;       /* when heaps at rest were looked for last */
    _Atomic bool is_waiting;          /* much was dirty in the arenas after the last housekeeping */
    _Atomic uint64_t moving_until_ms; /* until then the program moves its blocks together itself */
    _Atomic uint32_t in_use;          /* heaps that threads have now */
};

static struct heaps heaps;

/* Whether its thread did not look at the clock for so long. */
ALWAYS_INLINE bool heap_is_at_rest(struct heap *heap, uint64_t now_ms, uint64_t age_ms)
{
    /* It may have looked after we did. */
    uint64_t tick_ms = atomic_get(&heap->tick_ms);
    return tick_ms <= now_ms && now_ms - tick_ms >= age_ms;
}

/* So many heaps for each arena (one per CPU) are a crowd: most of their threads sleep, and what lies in lists
 * and current slabs of such a thread nobody else can use. A steady thread is of those that do not. */
#define CROWD_HEAPS 4u

ALWAYS_INLINE bool heaps_are_crowded(void)
{
    return atomic_get(&heaps.in_use) >= CROWD_HEAPS * arena_count();
}

/* A thread that took and gave back so many slots and blocks without a pause is steady: of a pool that is busy, not
 * one that woke up for a request. Time would not tell: with many threads on few CPUs the shortest burst is long. */
#define STEADY_SLOTS 131072u

ALWAYS_INLINE bool heap_is_steady(const struct heap *heap)
{
    return heap->awake_slots >= STEADY_SLOTS;
}

ALWAYS_INLINE bool heap_is_of_crowd(struct heap *heap)
{
    return !heap_is_steady(heap) && heaps_are_crowded();
}

/* Of a memory_limit no more than this part for each arena lies where nobody can use it but a thread that may sleep. */
#define LIMIT_PART 64u

ALWAYS_INLINE size_t heaps_within_limit(size_t bytes)
{
    return size_min(bytes, limit_bytes() / LIMIT_PART);
}

/* What a heap may hold where nobody else can use it, of `bytes` for each arena (one per CPU): an equal part, and all
 * of it while there are fewer than two heaps for each. With n for each most threads sleep, and what they fell
 * asleep with stays: so a heap that is not steady has a part that is smaller by n squared. */
ALWAYS_INLINE size_t heap_part(struct heap *heap, size_t bytes)
{
    size_t crowd = size_max(atomic_get(&heaps.in_use) / arena_count(), 1);
    size_t most = heaps_within_limit(bytes);
    return heap_is_steady(heap) ? most / crowd : most / crowd / crowd / crowd;
}

ALWAYS_INLINE uint32_t heaps_ready_most(void)
{
    return atomic_get(&heaps.in_use) <= 1 ? READY_MAX_ALONE : READY_MAX;
}

/* In a crowd a heap's slabs become twice as large no more often than this. */
#define CROWD_DOUBLINGS 1u

/* Takes samples for a profile, see sampling.h; of what its lists and stacks hand out. */
ALWAYS_INLINE bool heap_is_sampling(const struct heap *heap)
{
    return HEAPS_SAMPLE && heap->is_sampling;
}

/* The slots of a class that come behind the list before the next sample; 0: one is due, or it is not known. Of a heap
 * that takes samples. Lists that are filled bring it nearer by being counted. */
ALWAYS_INLINE uint32_t heap_until_sample(const struct heap *heap, unsigned class)
{
    return heap->sample_at[class] - (uint32_t)heap->counts[class].handed;
}

ALWAYS_INLINE void heap_set_until_sample(struct heap *heap, unsigned class, uint32_t slots)
{
    heap->sample_at[class] = (uint32_t)heap->counts[class].handed + slots;
}

/* Chance begins anew: when the next sample of a class comes is drawn when its list is empty. */
ALWAYS_INLINE void heap_forget_sample(struct heap *heap, unsigned class)
{
    heap->sample_known &= ~((uint64_t)1 << class);
    heap_set_until_sample(heap, class, 0);
    heap->until_next[class] = 0;
}

/* The same of blocks that come past them. */
ALWAYS_INLINE bool heap_chooses_samples(const struct heap *heap)
{
    return PROFILE_IS_POSSIBLE && heap->is_sampling;
}

ALWAYS_INLINE struct extent *slab_at(struct link *link)
{
    return container_of(link, struct extent, link);
}

/* Takes a slab out of the ready or the waiting ones, and closes it. Returns whether it was open. */
ALWAYS_INLINE bool heap_unlist(struct heap *heap, struct extent *extent)
{
    bool was_open = slab_close(extent);
    check(extent->slab.place == SLAB_READY || extent->slab.place == SLAB_WAITING);
    check(extent->slab.place != SLAB_READY || heap->bins[extent->slab.class].ready_count > 0);
    list_remove(&extent->link);
    struct bin *bin = &heap->bins[extent->slab.class];
    bin->ready_count = (uint16_t)(bin->ready_count - (extent->slab.place == SLAB_READY));
    extent->slab.place = SLAB_NONE;
    return was_open;
}

ALWAYS_INLINE void heap_count_fill(struct heap *heap, unsigned class, uint32_t count)
{
    heap->counts[class].handed += count;
    heap->counts[class].fills++;
}

ALWAYS_INLINE void heap_count_flush(struct heap *heap, unsigned class, uint32_t count)
{
    heap->counts[class].returned += count;
    heap->counts[class].flushes += count != 0;
}

/* For a heap that counts each call, see thread_count. */
ALWAYS_INLINE void heap_count_bytes(struct heap *heap, uint64_t bytes)
{
    heap->allocated += bytes;
    int64_t held = (int64_t)(heap->allocated - heap->deallocated - heap->held_before);
    if (held > (int64_t)heap->held_most) {
        heap->held_most = (uint64_t)held;
    }
}

/* Whether another thread of this process works with the heap now; no thread is noted in the shared
 * heap. */
ALWAYS_INLINE bool heap_is_anothers(struct heap *heap)
{
    return heap->thread != NULL && heap->thread != os_thread_id() && !heap->is_orphan;
}

/* Adds to the pages in stacks, or takes away as an unsigned number wraps. */
ALWAYS_INLINE void heap_count_stack(struct heap *heap, size_t pages)
{
    atomic_set(&heap->stack_pages, atomic_get(&heap->stack_pages) + pages);
}

/* To be called when the limit of the stacks or the length of the lists has changed. */
ALWAYS_INLINE void heap_set_alarm(struct heap *heap)
{
    size_t waiting = heap->list_max > LIST_MAX_WAITING ? WAITING_BYTES >> os_page_shift : SIZE_MAX;
    heap->stack_alarm = size_min(heap->stack_limit, waiting);
}

ALWAYS_INLINE struct magazine *heap_magazine(struct heap *heap, unsigned class)
{
    return &heap->magazines[class - SMALL_CLASSES];
}

ALWAYS_INLINE int16_t *heap_limit(struct heap *heap, unsigned class)
{
    return &heap->limits[(size_t) class - SMALL_CLASSES]; /* a constant beside the index */
}

/* The length of a list of medium slots or of blocks. */
ALWAYS_INLINE uint32_t magazine_count(const struct heap *heap, unsigned class)
{
    return (uint32_t)-heap->rooms[class];
}

ALWAYS_INLINE void magazine_set_count(struct heap *heap, unsigned class, uint32_t count)
{
    heap->rooms[class] = (int16_t) - (int32_t)count;
}

/* The most blocks of pages that a private list has: so many can be counted. What comes more waits in the cell. */
#define LISTED_MOST MW_LIMIT(INT16_MAX / 2, 256)

/* Chooses the way of malloc: where `is_mixed`, all classes above SMALL_MAX are worked out in one way, as nobody can foretell
 * whether a request is above SLOT_MAX. */
ALWAYS_INLINE void heap_set_way(struct heap *heap, bool is_mixed)
{
    heap->table_most = MW_PAGEMAP_LISTS && !is_mixed ? SLOT_MAX : SMALL_MAX;
}

/* Whether the thread allocates large blocks: from private lists, which are so until the heap settles, or in other ways. */
ALWAYS_INLINE bool heap_uses_blocks(const struct heap *heap)
{
    return heap->takes_blocks || heap->is_private;
}

ALWAYS_INLINE void heap_note_class(struct heap *heap, unsigned class)
{
    heap->classes_used |= (uint64_t)1 << class;
}

/* What the program asked for, or said, of a thread does not hold for the next one that has its heap. */
ALWAYS_INLINE void heap_forget_wishes(struct heap *heap)
{
    heap->is_counting = false;
    if (heap->profile_name[0] != 0) {
        heap->profile_name[0] = 0;
    }
}

/* What a thread did says nothing of the next one that has its heap. The page of most of these is not written to where a
 * thread had small blocks alone. */
ALWAYS_INLINE void heap_forget_thread(struct heap *heap)
{
    heap->takes_blocks = false;
    if (heap->classes_looked != 0 || heap->stack_pages_before != 0 || heap->giving_up_ticks != 0) {
        heap->classes_looked = 0;
        heap->slots_back = 0;
        heap->since_look = 0;
        heap->slots_came = 0;
        heap->gave_up = false;
        heap->given_up_doublings = 0;
        heap->giving_up_ticks = 0;
        heap->stack_pages_before = 0;
    }
}

#endif
