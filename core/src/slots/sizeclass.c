/* SPDX-License-Identifier: MIT */
#include "sizeclass.h"

/* A full-grown slab has at least this size and at least so many slots. */
#define SLAB_GROWN_BYTES (64 * KiB)
#define SLAB_GROWN_SLOTS 8u

/* Pages of the slabs of a class, where they are set; else 0. const after the start */
static uint16_t slab_pages_set[CLASSES] IN_SECTION(options);

/* Apart from them, so that most programs touch none of their page. const after the start */
static bool some_slab_pages_are_set;

/* Slots that come in any order: of fewer it is easily guessed which one comes next. They take address space; pages get
 * memory when their slots are used. */
#define SCATTERED_SLOTS_MIN 12u

/* The fewest pages with so many bytes that waste at most an eighth behind the last slot. */
static size_t pages_for_slots(size_t slot_size, size_t bytes)
{
    size_t pages = 1;
    while (pages * os_page_size < bytes ||
           (pages * os_page_size) % slot_size > pages * os_page_size / 8) {
        pages++;
    }
    return pages;
}

static size_t class_first_pages(size_t slot_size)
{
    bool is_scattered = MW_RANDOM && slot_size > SMALL_MAX;
    return pages_for_slots(slot_size, is_scattered
                                          ? size_min(SCATTERED_SLOTS_MIN * slot_size, SLAB_SET_MOST)
                                          : slot_size);
}

static bool class_has_set_pages(unsigned class)
{
    check(class != 0 && class < CLASSES);
    return unlikely(some_slab_pages_are_set) && slab_pages_set[class] != 0;
}

static size_t class_least_pages(unsigned class)
{
    size_t slot_size = class_size(class);
    return class_has_set_pages(class) ? slab_pages_set[class]
                                      : pages_for_slots(slot_size, slot_size);
}

static size_t class_slab_pages(unsigned class, unsigned made)
{
    if (class_has_set_pages(class)) {
        return slab_pages_set[class];
    }
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

static void class_set_slab_pages(unsigned class, size_t pages)
{
    check(class != 0 && class < CLASSES);
    size_t slot_size = class_size(class);
    size_t least = (slot_size + os_page_size - 1) >> os_page_shift;
    size_t most = size_min(SLAB_SLOTS_MAX * slot_size, SLAB_SET_MOST) >> os_page_shift;
    slab_pages_set[class] = (uint16_t)size_max(size_min(pages, most), least);
    some_slab_pages_are_set = true;
    check(slab_pages_set[class] == class_slab_pages(class, 0));
}
