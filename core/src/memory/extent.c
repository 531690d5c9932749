/* SPDX-License-Identifier: MIT */
#include "extent.h"

static void extent_map_ends(struct extent *extent)
{
    check(extent_pages(extent) != 0 && (extent->start & (os_page_size - 1)) == 0);
    pagemap_set(extent->start, extent);
    pagemap_set(extent_end(extent) - GRANULE, extent);
}

static void extent_unmap_ends(struct extent *extent)
{
    check(pagemap_find((void *)extent->start) == extent);
    check(pagemap_find((void *)(extent_end(extent) - GRANULE)) == extent);
    pagemap_set(extent->start, NULL);
    pagemap_set(extent_end(extent) - GRANULE, NULL);
}

/* --- Sets ------------------------------------------------------------------------------------ */

static bool extent_bins_are_valid(struct extent_set *set);

/* Extents of a bin that are compared to find the best. */
#define FIT_TRIES 8u

static unsigned extent_bin(size_t pages)
{
    if (pages <= 8) {
        return (unsigned)pages - 1;
    }
    unsigned log2 = floor_log2(pages - 1);
    unsigned bin = 8 + (log2 - 3) * 4 + (unsigned)((pages - 1) >> (log2 - 2) & 3);
    return bin < EXTENT_BINS ? bin : EXTENT_BINS - 1;
}

static size_t extent_bin_pages(unsigned bin)
{
    if (bin < 8) {
        return bin + 1;
    }
    unsigned log2 = 3 + (bin - 8) / 4;
    return ((size_t)1 << log2) + ((size_t)((bin - 8) % 4 + 1) << (log2 - 2));
}

static void extent_set_insert(struct extent_set *set, struct extent *extent)
{
    unsigned bin = extent_bin(extent_pages(extent));
    struct extent *next = set->bins[bin];
    check((next != NULL) == (atomic_get(&set->filled) >> bin & 1) && next != extent);
    check(next == NULL || next->bin_prev == NULL);
    extent->bin_next = next;
    extent->bin_prev = NULL;
    if (next != NULL) {
        next->bin_prev = extent;
    }
    set->bins[bin] = extent;
    atomic_set(&set->filled, atomic_get(&set->filled) | (uint64_t)1 << bin);
    list_push_back(&set->lru, &extent->link);
    set->pages += extent_pages(extent);
    set->count++;
    check(set->pages >= set->count);
    check_slow(extent_bins_are_valid(set));
}

static void extent_set_remove(struct extent_set *set, struct extent *extent)
{
    check(set->count > 0 && set->pages >= extent_pages(extent));
    struct extent *next = extent->bin_next;
    check(next == NULL || next->bin_prev == extent);
    check(extent->bin_prev == NULL || extent->bin_prev->bin_next == extent);
    if (next != NULL) {
        next->bin_prev = extent->bin_prev;
    }
    if (extent->bin_prev != NULL) {
        extent->bin_prev->bin_next = next;
    } else {
        unsigned bin = extent_bin(extent_pages(extent));
        require(set->bins[bin] == extent);
        set->bins[bin] = next;
        if (next == NULL) {
            atomic_set(&set->filled, atomic_get(&set->filled) & ~((uint64_t)1 << bin));
        }
    }
    list_remove(&extent->link);
    set->pages -= extent_pages(extent);
    set->count--;
    check((set->count == 0) == (set->pages == 0) &&
          (set->count == 0) == (atomic_get(&set->filled) == 0));
    check(list_is_empty(&set->lru) == (set->count == 0));
    check_slow(extent_bins_are_valid(set));
}

/* The best of the first extents of a bin; NULL if none of them has `pages`. */
static struct extent *extent_bin_fit(struct extent *at, size_t pages)
{
    struct extent *best = NULL;
    for (unsigned tries = 0; tries < FIT_TRIES && at != NULL; tries++, at = at->bin_next) {
        if (extent_pages(at) < pages) {
            continue;
        }
        if (best == NULL || extent_pages(at) < extent_pages(best) ||
            (extent_pages(at) == extent_pages(best) && at->start < best->start)) {
            best = at;
        }
    }
    return best;
}

static struct extent *extent_set_fit(struct extent_set *set, size_t pages)
{
    unsigned bin = extent_bin(pages);
    struct extent *best = extent_bin_fit(set->bins[bin], pages);
    uint64_t larger = bin + 1 < EXTENT_BINS ? atomic_get(&set->filled) >> (bin + 1) : 0;
    if (best != NULL || larger == 0) {
        return best;
    }
    return extent_bin_fit(set->bins[bin + 1 + (unsigned)__builtin_ctzl(larger)], pages);
}

static struct extent *extent_set_oldest(struct extent_set *set)
{
    return list_is_empty(&set->lru) ? NULL : container_of(set->lru.next, struct extent, link);
}

/* --- Validity -------------------------------------------------------------------------------- */

static bool extent_is_valid(struct extent *extent)
{
    struct region *region = extent->region;
    require(extent_state(extent) != EXTENT_UNUSED && extent_state(extent) <= EXTENT_MOVING);
    require(extent_pages(extent) != 0 && (extent->start & (os_page_size - 1)) == 0);
    require((region == NULL) == extent->is_huge);
    require(region == NULL ||
            (extent->start >= region->start && extent_end(extent) <= region->start + region->size));
    require(extent_state(extent) == EXTENT_ACTIVE || !extent_is_slab(extent));
    require(pagemap_find((void *)extent->start) == extent);
    require(pagemap_find((void *)(extent_end(extent) - GRANULE)) == extent);
    return true;
}

static bool extent_is_mapped_by_ends(struct extent *extent)
{
    for (uintptr_t at = extent->start + GRANULE; at < extent_end(extent) - GRANULE; at += GRANULE) {
        require(pagemap_find((void *)at) == pagemap_nothing());
    }
    return extent_is_valid(extent);
}

/* Whether the bins hold as many extents as the set, each in the bin of its size. */
static bool extent_bins_are_valid(struct extent_set *set)
{
    size_t count = 0;
    for (unsigned bin = 0; bin < EXTENT_BINS; bin++) {
        struct extent *prev = NULL;
        require((set->bins[bin] != NULL) == (atomic_get(&set->filled) >> bin & 1));
        for (struct extent *at = set->bins[bin]; at != NULL; at = at->bin_next) {
            require(extent_bin(extent_pages(at)) == bin && at->bin_prev == prev);
            require(++count <= set->count);
            prev = at;
        }
    }
    return count == set->count;
}

static bool extent_set_is_valid(struct extent_set *set, enum extent_state state)
{
    size_t pages = 0;
    size_t count = 0;
    for (struct link *at = list_first(&set->lru); at != &set->lru; at = at->next) {
        struct extent *extent = container_of(at, struct extent, link);
        require(extent_state(extent) == state && at->next->prev == at);
        require(extent_is_valid(extent));
        pages += extent_pages(extent);
        require(++count <= set->count);
    }
    return pages == set->pages && count == set->count && extent_bins_are_valid(set);
}
