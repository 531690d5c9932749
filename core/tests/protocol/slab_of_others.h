/* SPDX-License-Identifier: MIT
 *
 * A slab of the first thread, and what the two others do with its slots: they free them.
 */
#ifndef TEST_SLAB_OF_OTHERS_H
#define TEST_SLAB_OF_OTHERS_H

#include "protocol.h"

static struct extent *extent;
static struct slot *slots[4];

static void free_first(void)
{
    program_frees(&heaps_of[1], extent, slots[0]);
    program_uses_free_pages(&heaps_of[1]);
}

static void free_second(void)
{
    program_frees(&heaps_of[2], extent, slots[1]);
    program_uses_free_pages(&heaps_of[2]);
}

static void free_both(void)
{
    program_frees(&heaps_of[1], extent, slots[0]);
    program_frees(&heaps_of[1], extent, slots[1]);
    program_uses_free_pages(&heaps_of[1]);
}

static void slab_is_empty_and_released(void)
{
    PROPERTY(list_is_empty(&slab_pool_of(extent)->common[COMMON_FIRST][class_of(SLOT_SIZE)]) &&
                 list_is_empty(&slab_pool_of(extent)->common[COMMON_HOLES][class_of(SLOT_SIZE)]),
             "the pool lists a slab that is gone");
    slab_must_be_released_once(extent);
}

#endif
