/* SPDX-License-Identifier: MIT
 *
 * What the program was given past the heaps, for the statistics.
 */
#ifndef MALLOW_STATS_PAST_H
#define MALLOW_STATS_PAST_H

#include "stats.h"

/* Adds the direct blocks of an arena. */
static void stats_add_direct(struct stats_arena *to, struct direct *direct);

/* Adds the guarded blocks: each is the one slot of a slab of its class, in the first arena, and what no
 * block has of the pages for them is free address space there. */
static void stats_add_guarded(struct stats_arena *to);

#endif
