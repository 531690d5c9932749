/* SPDX-License-Identifier: MIT */
#include "stats_past.h"

#include "../slots/direct.h"
#include "../slots/guarded.h"

/* Other threads may be at work. */
__attribute__((no_sanitize("thread"))) static void stats_add_direct(struct stats_arena *to,
                                                                    struct direct *direct)
{
    for (unsigned class = 1; class < CLASSES; class ++) {
        to->classes[class].allocations += atomic_peek(&direct->blocks[class]);
        to->classes[class].slabs_made += atomic_peek(&direct->slabs_made[class]);
    }
    for (unsigned class = 0; class < LARGE_CLASSES; class ++) {
        to->large[class].allocations += atomic_peek(&direct->large_blocks[class]);
    }
    to->figures.threads += atomic_get(&direct->arena->bound);
}

static void stats_add_guarded(struct stats_arena *to)
{
    struct guarded_figures guarded;
    if (!guarded_read(&guarded)) {
        return;
    }
    for (unsigned class = 1; class < CLASSES; class ++) {
        struct stats_class *figures = &to->classes[class];
        figures->allocations += guarded.given[class];
        figures->slabs_made += guarded.given[class];
        figures->slabs += guarded.held[class];
        figures->slots += guarded.held[class];
        figures->slots_out += guarded.held[class];
        to->figures.small_bytes += guarded.held[class] * class_size(class);
    }
    to->figures.slab_bytes += guarded.active;
    to->figures.region_bytes += guarded.mapped;
    to->figures.retained_bytes += guarded.mapped - guarded.active;
    struct stats_extents *extents = &to->extents[extent_bin(guarded.mapped >> os_page_shift)];
    extents->retained++;
    extents->retained_bytes += guarded.mapped - guarded.active;
}
