/* SPDX-License-Identifier: MIT */
#include "sizeclass.h"

/* A full-grown slab has at least this size and at least so many slots. */
#define SLAB_GROWN_BYTES (64 * KiB)
#define SLAB_GROWN_SLOTS 8u

/* The fewest pages that waste at most an eighth behind the last slot. */
static size_t class_first_pages(size_t slot_size)
{
    size_t pages = 1;
    while (pages * os_page_size < slot_size ||
           (pages * os_page_size) % slot_size > pages * os_page_size / 8) {
        pages++;
    }
    return pages;
}

static size_t class_slab_pages(unsigned class, unsigned made)
{
    check(class != 0 && class < CLASSES);
    size_t slot_size = class_size(class);
    size_t grown = size_max(SLAB_GROWN_BYTES, SLAB_GROWN_SLOTS * slot_size);
    grown = size_min(grown, SLAB_SLOTS_MAX * slot_size);
    size_t pages = class_first_pages(slot_size);
    while (made-- > 0 && 2 * pages * os_page_size <= grown) {
        pages *= 2;
    }
    check(pages * os_page_size >= slot_size && pages * os_page_size / slot_size < (1u << 16));
    return pages;
}
