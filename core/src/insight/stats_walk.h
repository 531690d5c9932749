/* SPDX-License-Identifier: MIT
 *
 * What the extents of an arena hold, for the statistics: a walk over its regions.
 */
#ifndef MALLOW_STATS_WALK_H
#define MALLOW_STATS_WALK_H

#include "../slots/common.h"
#include "stats.h"

/* Where the figures of an arena stand. */
ALWAYS_INLINE struct stats_arena *place_of_arena(struct stats *stats, unsigned number)
{
    check(stats->is_folded || number < stats->arena_count);
    return &stats->arenas[stats->is_folded ? 0 : number];
}

/* What follows in a list whose owner may be giving the slot to the program: with a memory tag by now. */
ALWAYS_INLINE struct slot *slot_peek_next(struct slot *slot)
{
    uint64_t before = tags_ignore();
    uintptr_t next = atomic_peek(&slot->link) ^ slot_link_key(slot);
    tags_check_again(before);
    return (struct slot *)next;
}

/* Adds that. The locks of the arena and, where it has common slabs, of its pool are held. */
static void stats_walk_arena(struct stats_arena *to, struct arena *arena);

/* Counts the blocks of pages in a list of the calling thread's heap as free, which stats_walk_arena took for the
 * program's: where lists hold blocks and not their descriptors. The locks of the first `locked` arenas are held, so that
 * nothing in them is unmapped. */
static void stats_walk_blocks_locked(struct stats *stats, unsigned locked, struct slot *block);

/* The same of `count` blocks of which nobody knows where they lie: in the heap's arena as far as it has such blocks,
 * then in others. */
static void stats_guess_blocks_locked(struct stats *stats, unsigned locked, unsigned arena,
                                      unsigned page_class, uint32_t count);

#endif
