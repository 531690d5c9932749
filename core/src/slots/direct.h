/* SPDX-License-Identifier: MIT
 *
 * Direct blocks: those that the program asks for from an arena by its number. They come from the arena
 * and go back to it at once, whichever thread frees them, past heaps, magazines and stacks: so an
 * explicit arena can take all of its blocks back at any time, and what was asked of arena 3 lies there.
 *
 *   Every arena that was asked has a pool: slabs of its own, whose owner is OWNER_DIRECT, under one
 *   lock. slab_used() counts the slots that the program holds; `local` has the free ones. A slab with a
 *   free slot is in the pool's list of its class. A large block has OWNER_DIRECT too while it is out.
 *
 * The pool's lock is the direct lock of its arena. It is taken before the locks of heaps: hooks run
 * under it, and may allocate.
 */
#ifndef MALLOW_DIRECT_H
#define MALLOW_DIRECT_H

#include "../arena/explicit.h"
#include "harden.h"
#include "large.h"

struct direct {
    struct lock lock;
    struct arena *arena;        /* const */
    struct link slabs[CLASSES]; /* lock: those with free slots */
    uint8_t made[CLASSES];      /* lock: slabs made: the next one is larger */
    int32_t until_tick;         /* lock: calls until decay runs */
    int32_t until_tick_before;  /* lock: what that was when somebody looked last */

    /* What the program was given, ever. */
    uint64_t blocks[CLASSES];             /* lock */
    uint64_t slabs_made[CLASSES];         /* lock */
    uint64_t large_blocks[LARGE_CLASSES]; /* lock */
};

ALWAYS_INLINE bool extent_is_direct(struct extent *extent)
{
    return atomic_get(&extent->owner) == OWNER_DIRECT;
}

/* The pool of an arena; NULL if it has none. */
static struct direct *direct_find(struct arena *arena);

/* The pool of an arena that exists, which is made if need be. NULL if out of memory. The caller holds
 * the table lock. */
static struct direct *direct_open(struct arena *arena);

/* Whether a hook that this thread called is at work. It gets memory from the heap: in another pool it would
 * wait for a thread that may be waiting for this one. */
static bool direct_is_in_hook(void);

/* Whether this thread is in a call to a pool. */
static bool directs_are_mine(void);

/* A slot that the program holds from now on, or an extent for a large block; NULL if out of memory. */
static void *direct_alloc_slot(struct direct *direct, unsigned class, size_t size);
static struct extent *direct_alloc_pages(struct direct *direct, size_t size, size_t alignment);

/* A direct block that the program gives back. */
static void direct_free(struct extent *extent, void *block);

/* Makes a large direct block longer or shorter without a copy; it may move unless it must stay. */
static bool direct_try_resize(struct extent *extent, size_t size, bool must_stay);

/* An arena of the program's: with its hooks, or the kernel where they are NULL. NULL if out of memory.
 * The table lock is held for this and for the end of it. */
static struct arena *direct_create_arena(unsigned shared, extent_hooks_t *hooks);
static void direct_destroy_arena(struct direct *direct);

/* Takes all blocks of an explicit arena back. */
static void direct_reset(struct direct *direct);

/* Gives free memory of an explicit arena back, all or what the time of is over. */
static void direct_purge(struct direct *direct);
static void direct_decay(struct direct *direct, uint64_t now_ms);

/* Other hooks for an explicit arena; returns those that it had. */
static extent_hooks_t *direct_set_hooks(struct direct *direct, extent_hooks_t *hooks);

/* Lets decay run in all explicit arenas that nobody works with. The caller holds no lock; from a hook it
 * does nothing. */
static void directs_tick(uint64_t now_ms);

/* Gives all free memory of direct blocks and explicit arenas back. The caller holds no lock; from a hook it
 * does nothing. */
static void directs_purge(void);

/* Gives back what is free in the arenas that the program made, but those with hooks, and those that another
 * thread works with: for a thread that gets no memory. */
static void directs_give_back(void);

/* For fork: takes the locks of all. The caller holds the table lock. */
static void directs_take(void);
static void directs_visit(void (*visit)(struct lock *));
static bool directs_have(bool (*visit)(struct lock *));

/* Walks over the slabs of a pool, and over all that pools and explicit arenas have. */
static bool direct_is_valid(struct direct *direct);
static void directs_check(void);

#endif
