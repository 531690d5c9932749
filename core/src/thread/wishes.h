/* SPDX-License-Identifier: MIT
 *
 * What the settings ask for every thread: tcache, tcache_max, oversize_threshold, narenas_ratio, percpu_arena
 * and slab_sizes of jemalloc. They cost the hit paths nothing: the lists of classes that are not to be cached stay empty.
 */
#ifndef MALLOW_WISHES_H
#define MALLOW_WISHES_H

#include "heap_state.h"

/* In the order of conf.def: the next one's turn, by CPU, by CPU and the two of a core alike. */
enum arena_choice { ARENA_IN_TURN, ARENA_PER_CPU, ARENA_PER_CORE };

/* const after the start */
static struct {
    bool are_uncached;  /* no block lies in lists of a heap */
    uint8_t by_cpu;     /* how a thread's arena is chosen: an enum arena_choice */
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

/* How many arenas there are to be at the start. */
static unsigned arenas_asked_for(void);

/* The arena, of `count`, of a thread that runs where the calling one does; -1 where that is nothing to go by. */
static long arena_by_cpu(unsigned count);

#endif
