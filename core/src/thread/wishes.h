/* SPDX-License-Identifier: MIT
 *
 * What the settings ask for every thread: tcache, tcache_max, oversize_threshold and narenas_ratio of jemalloc.
 * They cost the hit paths nothing: the lists of classes that are not to be cached stay empty.
 */
#ifndef MALLOW_WISHES_H
#define MALLOW_WISHES_H

#include "heap_state.h"

/* const after the start */
static struct {
    bool are_uncached;  /* no block lies in lists of a heap */
    size_t cached_most; /* none above this size does; 0: as the heap does */
    size_t
        oversize_least; /* blocks of at least so much come from an arena of their own; SIZE_MAX: none
                              do */
} wishes = {.oversize_least = SIZE_MAX};

static void wishes_load(void);

/* The largest block that lies in lists of threads that do not ask for something else. */
static size_t thread_cached_most(void);

/* How many arenas so many CPUs have if nobody says how many. */
static unsigned arenas_for_cpus(unsigned cpus);

#endif
