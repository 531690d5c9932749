/* SPDX-License-Identifier: MIT
 *
 * Guarded blocks, for programs in production: with the option guard_sample about one block in so many
 * that fit into slots is put here instead, alone on pages between pages without access.
 *
 *     | guard | place 0: the block's pages, the rest without access | guard | place 1 ... | guard |
 *
 * By chance the block begins with its pages or ends with them, as near as its alignment allows; the rest
 * of the pages is FILL_ZONE, and looked at when it is freed. Then the pages lose their memory and their
 * access, and the place waits until all others that were freed before it have been used again. So an
 * access beyond the block or after its end traps, and the report has the calls that allocated and freed
 * it.
 *
 *   NEVER  nobody had the place yet
 *   LIVE   the program holds the block
 *   FREED  without access; what is known of the last block stays
 *
 * Which block it is, thread/sampling.h says: the countdown of profiles, so what is off costs nothing. To free
 * and realloc all places are one extent whose owner is OWNER_GUARDED: they come to their slow side by
 * the comparison that they make anyway. The memory is bounded by guard_slots; while all places are taken,
 * no block is guarded. Idea: GWP-ASan (Serebryany et al., 2023, and LLVM's public documentation).
 */
#ifndef MALLOW_GUARDED_H
#define MALLOW_GUARDED_H

#include "../profile/sample.h"
#include "blame.h"
#include "sizeclass.h"

/* Where every block is tracked they lie between guards anyway, and a libc has no place for that. */
#define GUARDS_ARE_POSSIBLE PROFILE_IS_POSSIBLE

/* About one block in so many where the option does not say it; 0: none. */
#define GUARD_EVERY (MW_MODE == MW_SECURE ? 5000 : 0)

/* An access trapped that is at none of these blocks. What lies below in the layers knows more. */
static void (*const trap_elsewhere)(const struct trap *trap);

static struct lock guarded_lock; /* the queue of places, and the figures */

/* Makes the places if the option says so. Once, before the first block. */
static void guarded_load(void);

/* A block of `size` bytes, at most SLOT_MAX, which counts as one of a class; a page is the largest
 * alignment. NULL if no place is free. */
static NOINLINE void *guarded_take(size_t size, size_t alignment, unsigned class, bool at_end);

/* The program gives one back; its size. Ends the program if it does not hold it, or has written around
 * it. */
static NOINLINE size_t guarded_free(void *block);

/* A block is smaller from now on, in its place. */
static COLD void guarded_shrink(void *block, size_t size);

/* The bytes of a block, exactly those that were asked for. Ends the program if it does not hold it. */
static NOINLINE size_t guarded_size(const char *call, const void *block);

/* The bytes of the block that is held around an address among these blocks; 0 if none is. */
static size_t guarded_size_around(const void *address);

/* Ends the program if it has written around one that it holds. */
static void guarded_sweep(void);

/* Whether any block may be guarded. */
ALWAYS_INLINE bool guards_are_on(void)
{
    return GUARDS_ARE_POSSIBLE && profile.guard_rate != 0;
}

ALWAYS_INLINE bool extent_is_guarded(struct extent *extent)
{
    return GUARDS_ARE_POSSIBLE && atomic_get(&extent->owner) == OWNER_GUARDED;
}

/* All bytes of a block that is no slot. */
ALWAYS_INLINE size_t whole_block_size(const char *call, struct extent *extent, const void *block)
{
    return unlikely(extent_is_guarded(extent)) ? guarded_size(call, block)
                                               : large_block_size(extent);
}

/* What the statistics count: blocks by class, as slots of slabs with one slot. */
struct guarded_figures {
    uint64_t given[CLASSES];
    uint64_t held[CLASSES];
    size_t active; /* bytes of pages with access */
    size_t mapped; /* bytes of address space */
};

/* False if there are no places. */
static bool guarded_read(struct guarded_figures *figures);

#endif
