/* SPDX-License-Identifier: MIT */
#include "wishes.h"

#include "../settings/conf.h"

/* The least block that jemalloc takes for oversized, whatever is set. */
#define OVERSIZE_MIN (16 * KiB)

/* slab_sizes: of the classes of these sizes. */
static void slab_sizes_load(void)
{
    const char *text = conf_text(conf_at(CONF_slab_sizes));
    struct conf_range range;
    while (conf_next_range(&text, &range)) {
        for (unsigned class = 1; class < CLASSES; class ++) {
            long size = (long)class_size(class);
            if (range.first <= size && size <= range.last) {
                class_set_slab_pages(class, (size_t)range.value);
            }
        }
    }
}

static void wishes_load(void)
{
    slab_sizes_load();
    long most = conf_value(conf_at(CONF_tcache_max));
    wishes.are_uncached = !conf_value(conf_at(CONF_tcache));
    if (most < (long)SLOT_REQUEST_MAX) {
        size_t rounded = most > 0 ? class_size(class_of((size_t)most + CANARY_BYTES)) : 1;
        wishes.cached_most = rounded < SLOT_MAX ? rounded : 0;
    }
    long oversize = conf_value(conf_at(CONF_oversize_threshold));
    if (oversize >= (long)OVERSIZE_MIN && !MW_FENCES && !MW_TRACK) {
        wishes.oversize_least = size_max((size_t)oversize, SLOT_MAX + 1);
    }
    wishes.by_cpu = (uint8_t)conf_value(conf_at(CONF_percpu_arena));
    check(wishes.cached_most < SLOT_MAX && wishes.oversize_least > SLOT_MAX);
}

static size_t thread_cached_most(void)
{
    return wishes.cached_most != 0 ? wishes.cached_most : SLOT_MAX;
}

/* jemalloc's rule: the second half of the CPUs are the second threads of the cores. */
static _Atomic unsigned cpu_places;

static unsigned arenas_for_cpus(unsigned cpus)
{
    if (wishes.by_cpu != ARENA_IN_TURN) {
        unsigned places = wishes.by_cpu == ARENA_PER_CORE ? (cpus + 1) / 2 : cpus;
        atomic_set(&cpu_places, places);
        return (unsigned)size_min(places, ARENAS_MAX);
    }
    uint64_t ratio = (uint64_t)conf_value(conf_at(CONF_narenas_ratio));
    uint64_t count = (cpus * ratio + CONF_ONE / 2) / CONF_ONE;
    return (unsigned)size_min(size_max(count, 1), ARENAS_MAX);
}

/* As in jemalloc each CPU has its arena then, whatever else is asked for. */
static unsigned arenas_asked_for(void)
{
    long wanted = option(OPTION_arenas);
    bool count = wanted <= 0 || wishes.by_cpu != ARENA_IN_TURN;
    unsigned least = count ? arenas_for_cpus(os_cpu_count()) : 1;
    return wanted > (long)least ? (unsigned)wanted : least;
}

static long arena_by_cpu(unsigned count)
{
    int cpu = wishes.by_cpu != ARENA_IN_TURN ? os_cpu_now() : -1;
    check(count != 0);
    return cpu >= 0 ? (long)((unsigned)cpu % size_max(atomic_get(&cpu_places), 1) % count) : -1;
}
