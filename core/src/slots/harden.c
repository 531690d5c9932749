/* SPDX-License-Identifier: MIT */
#include "harden.h"

static void harden_slab_empty(struct extent *extent)
{
    uint32_t size = extent->slab.slot_size;
    check(slab_used(extent) == 0 && extent_is_slab(extent));
    for (uint32_t i = 0; MW_FILL && i < extent->slab.carved; i++) {
        uintptr_t distance = (uintptr_t)slab_slot_of_turn(extent, i) * size;
        struct slot *slot = (struct slot *)(extent->start + distance);
        if (unlikely(!slot_link_is_plausible(slot) || !slot_fill_is_whole(slot, size))) {
            harden_bad_content(slot, size);
        }
    }
}
