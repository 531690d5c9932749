/* SPDX-License-Identifier: MIT */
#include "wishes.h"

#include "../settings/conf.h"

/* The least block that jemalloc takes for oversized, whatever is set. */
#define OVERSIZE_MIN (16 * KiB)

static void wishes_load(void)
{
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
    check(wishes.cached_most < SLOT_MAX && wishes.oversize_least > SLOT_MAX);
}

static size_t thread_cached_most(void)
{
    return wishes.cached_most != 0 ? wishes.cached_most : SLOT_MAX;
}

static unsigned arenas_for_cpus(unsigned cpus)
{
    uint64_t ratio = conf_keeps_any() ? conf_arenas_ratio() : CONF_ONE;
    uint64_t count = (cpus * ratio + CONF_ONE / 2) / CONF_ONE;
    return (unsigned)size_min(size_max(count, 1), ARENAS_MAX);
}
