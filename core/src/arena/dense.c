/* SPDX-License-Identifier: MIT */
#include "dense.h"

#include "../os/os.h"

/* An arena with so much in use asks for huge pages in a new region if of some places of the others, each of so
 * many pages, at least so many sixteenths are resident; a page without access behind a slab is not. */
#define DENSE_MIN MW_LIMIT(24 * MiB, 4 * MiB)
#define DENSE_PLACES 8u
#define DENSE_PAGES 32u
#define DENSE_SIXTEENTHS (MW_FENCES ? 14u : 15u)

/* The regions until the arena has so much get none. */
#define SMALL_ARENA (8 * MiB)

/* Nor does it if of the last 2 MiB of the newest region, the telling part, fewer sixteenths are resident. Huge
 * pages are refused there, so that it tells; but behind so many regions, whose ends would be too many mappings. */
#define TELLING_PLACES 4u
#define TELLING_SIXTEENTHS 10u
#define TELLING_REGIONS 1024u

/* Places that lie equally far apart in the regions. Returns how many there are; none where little is in use. */
static unsigned dense_places(struct arena *arena, uintptr_t places[DENSE_PLACES])
{
    unsigned count = 0;
    lock_take(&arena->lock);
    size_t in_use = atomic_get(&arena->active_pages) << os_page_shift;
    size_t step = align_up(arena->region_bytes / DENSE_PLACES, os_page_size);
    size_t at = align_up(step / 2, os_page_size); /* in the regions, one behind the other */
    struct region *region = in_use >= DENSE_MIN ? arena->regions : NULL;
    for (; region != NULL; region = region->next) {
        for (; at + (DENSE_PAGES << os_page_shift) <= region->size && count < DENSE_PLACES;
             at += step) {
            places[count++] = region->start + at;
        }
        at = at > region->size ? at - region->size : 0;
    }
    lock_release(&arena->lock);
    return count;
}

static bool places_are_dense(const uintptr_t *places, unsigned count, size_t pages,
                             size_t sixteenths)
{
    size_t resident = 0;
    for (unsigned i = 0; i < count; i++) {
        resident += os_resident_pages((void *)places[i], pages);
    }
    return 16 * resident >= sixteenths * pages * count;
}

/* Where the last 2 MiB of the newest region begin and end, less what was never taken from it. */
static bool newest_telling_part(struct arena *arena, uintptr_t *start, uintptr_t *end)
{
    lock_take(&arena->lock);
    struct region *newest = arena->regions;
    bool is_large = newest != NULL && newest->size >= REGION_ALIGNMENT;
    if (is_large) {
        *end = newest->start + newest->size;
        *start = *end - REGION_ALIGNMENT;
        struct extent *last = pagemap_find((void *)(*end - GRANULE));
        *end = extent_state(last) == EXTENT_RETAINED ? size_max(last->start, *start) : *end;
    }
    lock_release(&arena->lock);
    return is_large && *end - *start >= REGION_ALIGNMENT / TELLING_PLACES;
}

/* Whether the program writes to most of what it now takes from the arena. */
static bool newest_is_dense(struct arena *arena)
{
    uintptr_t places[TELLING_PLACES], start, end;
    if (!newest_telling_part(arena, &start, &end)) {
        return false;
    }
    size_t step = (end - start) / TELLING_PLACES & ~(os_page_size - 1);
    for (unsigned i = 0; i < TELLING_PLACES; i++) {
        places[i] = start + i * step;
    }
    size_t pages = size_min(step >> os_page_shift, DENSE_PAGES);
    return places_are_dense(places, TELLING_PLACES, pages, TELLING_SIXTEENTHS);
}

/* Not asked where mincore may end the program, see stack_knows_resident. */
static bool arena_is_dense(struct arena *arena)
{
    uintptr_t places[DENSE_PLACES];
    if (!option(OPTION_ask_resident)) {
        return false;
    }
    unsigned count = dense_places(arena, places);
    return count != 0 && places_are_dense(places, count, DENSE_PAGES, DENSE_SIXTEENTHS) &&
           newest_is_dense(arena) && os_tells_resident();
}

/* Whether a huge page could be more than what the program needs. */
static bool arena_is_small(struct arena *arena)
{
    lock_take(&arena->lock);
    size_t region_bytes = arena->region_bytes;
    lock_release(&arena->lock);
    return region_bytes < SMALL_ARENA;
}

/* Huge pages are to spare time. A host that takes back what its virtual machines have free gives it anew by 4 KiB: there
 * a huge page took 16 ms, and 0.3 ms without; small pages for as much memory took 1 ms (docs/experiments.md). So the
 * first write to each region that asks for them is timed, and once it took longer than this none asks again. */
static _Atomic uint64_t huge_page_ns_most = 2000 * 1000;
static _Atomic bool huge_pages_are_dear;

static bool huge_page_is_dear(char *start)
{
    uint64_t before = os_now_ns();
    *(volatile char *)start = 0;
    bool is_dear = os_now_ns() - before > atomic_get(&huge_page_ns_most);
    if (is_dear) {
        atomic_set(&huge_pages_are_dear, true);
    }
    return is_dear;
}

static size_t dense_choose_huge_pages(struct arena *arena, char *start, size_t size,
                                      enum huge_pages *chosen)
{
    *chosen = os_refuses_huge_pages ? HUGE_PAGES_REFUSED : HUGE_PAGES_AS_SYSTEM;
    if (os_refuses_huge_pages) {
        return 0; /* os_map has told the kernel */
    }
    size_t asked = os_asks_for_huge_pages(size) ? size : 0; /* os_map_aligned has told it */
    if (!os_wants_huge_pages && arena_is_small(arena)) {
        *chosen = HUGE_PAGES_REFUSED;
        os_refuse_huge_pages(start, size);
        return 0;
    }
    if (size < 2 * REGION_ALIGNMENT) {
        return asked;
    }
    lock_take(&arena->lock);
    bool may_tell = !os_wants_huge_pages && arena->regions_made < TELLING_REGIONS;
    lock_release(&arena->lock);
    size_t telling = may_tell ? REGION_ALIGNMENT : 0;
    if (telling != 0) {
        os_refuse_huge_pages(start + size - telling, telling);
    }
    if (atomic_get(&huge_pages_are_dear) || !arena_is_dense(arena) ||
        !os_ask_for_huge_pages(start, size - telling)) {
        return asked;
    }
    if (!os_wants_huge_pages && huge_page_is_dear(start)) {
        *chosen = HUGE_PAGES_REFUSED;
        os_refuse_huge_pages(start, size - telling);
        return 0;
    }
    *chosen = HUGE_PAGES_ASKED;
    return size - telling;
}
