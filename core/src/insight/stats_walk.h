/* SPDX-License-Identifier: MIT
 *
 * What the extents of an arena hold, for the statistics: a walk over its regions.
 */
#ifndef MALLOW_STATS_WALK_H
#define MALLOW_STATS_WALK_H

#include "../slots/common.h"
#include "stats.h"

/* Adds that. The locks of the arena and, where it has common slabs, of its pool are held. */
static void stats_walk_arena(struct stats_arena *to, struct arena *arena);

#endif
