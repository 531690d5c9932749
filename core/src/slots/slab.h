/* SPDX-License-Identifier: MIT
 *
 * Slabs: extents cut into equal slots. A slab of a small class belongs to one heap, whose thread
 * alone allocates from it, or to none. What each place means stands at enum slab_place.
 *
 *                 heap_refill                all slots out
 *     (new) ----> CURRENT --------------------------------> NONE (no owner)
 *                   ^                                          |  a free by a thread that allocates
 *        picked by  |                                          |  the class: its heap owns the slab
 *        the heap   |        enough frees                      v
 *                 READY <---------------------------------- WAITING
 *                  |  ^
 *   handed on, or  |  |  another heap takes it, or a free makes its thread's heap the owner
 *   thread exits   v  |
 *                 SHARED (no owner)
 *
 * The pages of a slab without a used slot go to a stack of the heap that noticed (thread/stack.h).
 * A shared slab that is almost empty may also become a common one, see common.h, and stays one.
 * Slabs of medium classes are in the depot of their arena, see depot.h, from their first day to
 * their last.
 */
#ifndef MALLOW_SLAB_H
#define MALLOW_SLAB_H

#include "../arena/arena.h"
#include "inbox.h"
#include "sizeclass.h"
#include "slot.h"

/* Makes an active extent a slab that `owner` (a heap or OWNER_DEPOT) owns; its place is NONE. */
static void slab_create(struct extent *extent, unsigned class, struct heap *owner);

/* Posts, in the secure build: a page without access behind a slab, so that who reads or writes on and on
 * meets one. They come at a rate, and where the kernel can only make them with mappings there are a few.
 * Whoever takes pages for a slab takes so many more, then says slab_add_post before slab_create. */
static size_t slab_post_pages(void);
static void slab_add_post(struct extent *extent, size_t pages);

#if MW_FENCES
ALWAYS_INLINE uint8_t *slab_post(struct extent *extent)
{
    return &extent->post;
}
#else
ALWAYS_INLINE uint8_t *slab_post(struct extent *extent)
{
    static uint8_t none;
    (void)extent;
    return &none;
}
#endif

/* The bytes for slots. */
ALWAYS_INLINE size_t slab_bytes(struct extent *extent)
{
    return extent_size(extent) - (MW_FENCES && *slab_post(extent) != 0 ? os_page_size : 0);
}

/* Makes an empty slab, which the caller owns and which is in no list, an extent of plain pages. */
static void slab_retire(struct extent *extent);

/* Cuts the next slots, at most `most`, into a list: up to a page of them, for slots are made late
 * so that memory that nobody asked for stays untouched, or more if all have been touched before.
 * The slab is not yet fully carved. */
static struct slot *slab_carve(struct extent *extent, uint32_t most);

/* Cuts the local list behind its first `count` slots, which the caller has taken; what follows stays in
 * the slab. */
static NOINLINE void slab_cut_local(struct extent *extent, uint32_t count);

/* A program that allocates a block and frees it, over and over, would go on with the few slots that it
 * began with and need a new list at every few calls. Gives a current slab's local list, which is not
 * empty, up to `most` more slots if it is short. */
static void slab_lengthen_local(struct extent *extent, uint32_t most);

/* The order in which a slab's slots are carved. In builds that hide places those of a medium class come in an
 * order of their own slab, the first slot last: so a block tells little of where the next one lies, and has one of
 * its own kind in front as long as there is room. */
struct slab_order {
    bool is_plain;   /* one behind the other; else: */
    uint32_t others; /* all slots but the first */
    uint32_t first;
    uint32_t step;
};
static struct slab_order slab_order(struct extent *extent);

/* The number of the slot that was, or will be, the `turn`th to be carved. */
static uint32_t slab_slot_of_turn(const struct slab_order *order, uint32_t turn);

/* No slot from this number on was ever carved. */
ALWAYS_INLINE uint32_t slab_carved_end(struct extent *extent)
{
    bool is_scattered = MW_RANDOM && extent->slab.slot_size > SMALL_MAX;
    return is_scattered ? extent->slab.capacity : extent->slab.carved;
}

/* The length of the local list. */
ALWAYS_INLINE uint32_t slab_listed(const struct extent *extent)
{
    return extent->slab.carved - extent->slab.left;
}

/* Slots that are out, see struct slab. */
ALWAYS_INLINE uint32_t slab_used(struct extent *extent)
{
    return extent->slab.left + extent->slab.bias;
}

ALWAYS_INLINE bool slab_is_full(struct extent *extent)
{
    return slab_used(extent) == extent->slab.capacity;
}

/* --- Frees from other threads: see inbox.h ----------------------------------------------------- */

/* Moves what others freed to the local list, and closes the slab. For one of which the hit path has no list; owner
 * thread. */
static void slab_absorb_remote(struct extent *extent);

/* Makes the slab's owner NULL, so that the next thread to free into it can take it; it is in no
 * list, or shared. Returns true if slots came in from others at the same moment and nobody else
 * took the slab: then the caller owns it again. */
static bool slab_disown(struct extent *extent, struct heap *owner);

/* Makes `heap` the owner of a slab that has none. */
static bool slab_try_own(struct extent *extent, struct heap *heap);

/* How many free slots make a slab that was full worth allocating from, and one without an owner worth sharing: of that
 * nobody uses what is less. */
static uint32_t slab_slots_wanted(struct extent *extent);
static uint32_t slab_slots_shared(struct extent *extent);

/* Whether a slab that has no owner needs one for a moment, because `count` slots have just been
 * pushed and now there are `total`: it became empty, or worth sharing. Only a hint: whoever acts on
 * it takes the slab first and looks again. */
static bool slab_needs_care(struct extent *extent, uint32_t count, uint32_t total);

/* --- Slabs without an owner that have free slots, by arena ------------------------------------ */

/* What a common slab is for, see common.h. */
enum common_kind { COMMON_FIRST, COMMON_HOLES, COMMON_KINDS };

#define TABLE_SIZES 18u

/* Batches of an arena at most, see depot.h. */
#define BATCHES_MOST 64u

struct slab_pool {
    struct lock lock;
    _Atomic uint32_t count[CLASSES];           /* length of `slabs` */
    struct link slabs[CLASSES];                /* lock: small: shared ones; medium: of the depot */
    struct link common[COMMON_KINDS][CLASSES]; /* lock: common ones with free slots, see common.h */
    /* lock, to write; a bit per class: that list may have slabs. Who reads it without may miss one just listed. */
    _Atomic uint64_t common_seen[COMMON_KINDS];
    struct common *unused_tables[TABLE_SIZES]; /* lock: by the logarithm of their size */
    uint8_t depot_made[MEDIUM_CLASSES];        /* lock: slabs made: the next one is larger */
    /* Batches lie in places; a number is one more than the index of one, 0 is none. Lock, to write. */
    _Atomic uint8_t batch_first[MEDIUM_CLASSES]; /* the youngest of a class */
    _Atomic uint8_t batch_next[BATCHES_MOST]; /* the next older one; of an unused place another */
    _Atomic uint64_t batches[BATCHES_MOST];   /* each a list in one word */
    _Atomic uint32_t batch_bytes;             /* in all of them */
    _Atomic uint8_t batch_unused;             /* the first unused place */
    uint8_t batch_places;                     /* lock: that were ever used */
} __attribute__((aligned(CACHE_LINE)));       /* each thread writes to that of its arena */

/* The pool of an arena, and of the arena that a slab is of. */
static struct slab_pool *slab_pool_at(struct arena *arena);
static bool slab_pools_are_used(void);
static void slab_pools_note_use(void);
static struct slab_pool *slab_pool_of(struct extent *extent);

/* Puts a slab that `owner` still owns, and that is in no list, among the shared ones of its pool;
 * takes it out again. Who shares a slab disowns it next, who takes it out has just become its
 * owner. */
static void slab_share(struct extent *extent, struct heap *owner);
static void slab_unshare(struct extent *extent);

/* Takes a shared slab of a small class, the fuller ones first; NULL if there is none. */
static struct extent *slab_take_shared(struct arena *arena, unsigned class, struct heap *heap);

/* Whether `slabs` of a class has as many as `count` says, all of the class. The pool's lock is held. */
static bool slab_pool_is_valid(struct slab_pool *pool, unsigned class);

static void slab_pools_init(unsigned index);
static void slab_pools_lock(unsigned index);
static void slab_pools_unlock(unsigned index, bool in_child);

/* Whether the counts fit each other; the second walks over the slab's own list too. Owner thread, or
 * who holds the pool's lock. */
static bool slab_counts_match(struct extent *extent);
static bool slab_is_valid(struct extent *extent);

#endif
