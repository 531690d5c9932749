/* SPDX-License-Identifier: MIT
 *
 * Common slabs: slabs that no heap owns (their owner is OWNER_COMMON), from which heaps take blocks
 * of small classes, and of some medium ones, a few at a time, under the lock of the arena's pool.
 * There are two kinds.
 *
 *   COMMON_FIRST   A thread's first blocks of a class come from a slab that it shares with other
 *                  threads: a thousand threads with a handful of blocks each need no page each.
 *   COMMON_HOLES   A slab most of whose slots have become free serves blocks of larger classes, in
 *                  runs of neighbouring free slots, before fresh memory is taken: so new data goes
 *                  into the holes that the old has left.
 *
 * A table beside the slab has a byte per slot:
 *
 *      0 free      1 .. 16 a block of so many slots begins
 *      128 + class: its second slot, and the class that it serves      255 its other slots
 *
 *      | 1 | 3 140 255 | 0 0 | 5 142 255 255 255 | 0 | 1 | ...
 *
 * A block in a hole is free in the table at once, if nobody has the pool's lock: its neighbours are of other
 * times, so those that are freed together are of many slabs. First blocks, and all others, travel like what is
 * freed by another thread: through an outbox to the slab's remote list. Whoever brings enough of them collects them
 * into the table. In a common slab slab_used() counts the slots of blocks that are out, and used_at_last the blocks.
 */
#ifndef MALLOW_COMMON_H
#define MALLOW_COMMON_H

#include "slab.h"

/* The most slots that a block may span. */
#define COMMON_SPAN_MAX 16u

struct common {
    struct common *next_unused; /* lock: pool */
    struct link *list; /* const: that of the kind and class, for as long as slots are free */
    uint32_t capacity; /* const: of `slots` */
    uint32_t hint;     /* lock: pool; no free slot lies below */
    uint32_t run_max;  /* lock: pool; no run of free slots is longer */
    uint32_t searched; /* lock: pool; no run of `span` free slots begins below */
    uint32_t span;     /* lock: pool */
    uint8_t slots[];   /* lock: pool; the byte of a block: who holds it */
};

ALWAYS_INLINE bool slab_is_common(struct extent *extent)
{
    /* pairs with common_create_locked */
    return atomic_get_acquire(&extent->owner) == OWNER_COMMON;
}

/* Whether a common slab is for first blocks: then each of its blocks is one slot of its class. */
static bool common_is_first(struct extent *extent);

/* Makes a slab that the caller owns, that is in no list and some slots of which are used, a common
 * one of its arena. False if there is no memory for the table; then nothing has changed. */
static bool common_create(struct extent *extent, enum common_kind kind, struct heap *owner);

/* Makes a slab without used slots one for first blocks, and takes up to `want` of these, which it
 * returns as a list and their number in *count. Both at once: a thread that has just freed the last
 * block of a slab that the descriptor was of before would find the new one empty and give it back.
 * NULL if there is no memory for the table. */
static struct slot *common_create_first(struct extent *extent, struct heap *owner, uint32_t want,
                                        uint32_t *count);

/* Whether an arena may have common slabs of a kind and class with free slots; one that was just listed may
 * be missed. */
ALWAYS_INLINE bool common_may_serve(struct arena *arena, enum common_kind kind, unsigned class)
{
    return (atomic_get(&slab_pool_at(arena)->common_seen[kind]) >> class & 1) != 0;
}

/* What is wanted of common slabs: up to `want` blocks of a class, each of `span` slots of another. */
struct common_request {
    unsigned class;
    unsigned slot_class;
    uint32_t span;
    uint32_t want;
};

/* Takes them from the slabs of a kind. Returns them as a list and their number in *count; NULL if there are
 * none. */
static struct slot *common_take(struct arena *arena, enum common_kind kind,
                                const struct common_request *request, uint32_t *count);

/* Takes a shared slab of a class out of the pool that has so many free slots that runs of `span`
 * are likely; NULL if there is none. */
static struct extent *common_take_sparse(struct arena *arena, unsigned class, uint32_t span,
                                         struct heap *heap);

/* `count` blocks were pushed to the slab's remote list, where there are `total` now: collects them
 * if it is time. True if the slab became empty: then it is the caller's, as plain pages. */
static bool common_pushed(struct extent *extent, uint32_t count, uint32_t total);

/* Collects them now. The slab may have become another or none since the caller looked. True as
 * above. */
static bool common_collect(struct extent *extent);

/* Frees a block in a hole that the program has given back. False if it is no slab of holes, or somebody has the
 * lock; then nothing has changed. *is_empty as what common_pushed returns. */
static bool common_try_free(struct extent *extent, struct slot *block, bool *is_empty);

/* Ends the program with a sentence about a call on something that is not a block of the slab. */
_Noreturn static COLD void common_bad_block(const char *call, struct extent *extent,
                                            const void *block);

/* The size of the block that begins at `block`; 0 if none begins there. Any thread that holds the
 * block may ask. */
static size_t common_block_size(struct extent *extent, const void *block);

/* The class that the block at a slot was taken for. Of a slab that may have become another since the caller
 * looked it is any. */
static unsigned common_block_class(struct extent *extent, uint32_t index);

/* What the program, and heaps, have of a common slab: blocks by class, and the slots of those that are of
 * another class than the slab. */
struct common_figures {
    uint32_t blocks[CLASSES];
    uint32_t lent;
};

/* The pool's lock is held. */
static void common_count_locked(struct extent *extent, struct common_figures *figures);

/* Whether a block of at least a class's size begins at a slot. */
ALWAYS_INLINE bool common_block_serves(struct extent *extent, uint32_t index, unsigned class)
{
    uint32_t span = extent->common->slots[index];
    return span <= COMMON_SPAN_MAX && span * extent->slab.slot_size >= class_size(class);
}

static bool common_is_valid(struct extent *extent);

#endif
