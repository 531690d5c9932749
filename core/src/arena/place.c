/* SPDX-License-Identifier: MIT */
#include "place.h"

#include "../memory/meta.h"

/* Anywhere below this: the lower half of what a process has. */
#define PLACE_BITS 46

/* So many places wait at least, so that nobody can tell which one is next. */
#define PLACES_SPARE 16u

static uintptr_t place_by_chance_locked(struct arena *arena)
{
    uint32_t gone = 0;
    for (struct region *region = arena->unused_regions; region != NULL; region = region->next) {
        gone += region->start != 0;
    }
    uint64_t bits = random_bits();
    if (gone <= PLACES_SPARE) {
        return bits & (((uintptr_t)1 << PLACE_BITS) - REGION_ALIGNMENT);
    }
    struct region *region = arena->unused_regions;
    for (uint32_t skip = random_below(bits, gone); region->start == 0 || skip-- > 0;) {
        region = region->next;
    }
    return region->start;
}

static uintptr_t place_of_next_locked(struct arena *arena)
{
    check(lock_is_mine(&arena->lock));
    return MW_RANDOM ? place_by_chance_locked(arena) : arena->region_hint;
}

/* The link to the first unused region that remembers a place, 0: that remembers none. */
static struct region **place_find_locked(struct arena *arena, uintptr_t place)
{
    struct region **at = &arena->unused_regions;
    while (*at != NULL && (*at)->start != place) {
        at = &(*at)->next;
    }
    return at;
}

static struct region *place_new_region_locked(struct arena *arena, uintptr_t start)
{
    check(lock_is_mine(&arena->lock) && start != 0);
    struct region **at = place_find_locked(arena, start);
    if (*at == NULL) {
        at = place_find_locked(arena, 0);
    }
    struct region *region = *at;
    if (region == NULL) {
        return meta_alloc(sizeof *region);
    }
    *at = region->next;
    return region;
}

static void place_note_mapped_locked(struct arena *arena, uintptr_t start)
{
    check(lock_is_mine(&arena->lock));
    arena->region_hint = start - arena->region_next_size;
}

static void place_note_unmapped_locked(struct arena *arena, struct region *region)
{
    check(lock_is_mine(&arena->lock));
    if (!MW_RANDOM) {
        uintptr_t end = region->start + region->size;
        arena->region_hint = size_max(arena->region_hint, end - arena->region_next_size);
        region->start = 0;
    }
    region->next = arena->unused_regions;
    arena->unused_regions = region;
}
