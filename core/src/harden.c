/* SPDX-License-Identifier: MIT */
#include "harden.h"

_Noreturn static COLD void harden_bad_free(struct extent *extent, const void *block)
{
    uint32_t slot_size = extent->slab.slot_size;
    if (slab_has_slot_at(extent, block)) {
        log_fatal("double free of %p (%u bytes)", block, slot_size);
    }
    uintptr_t start = extent->start + (uintptr_t)slab_index(extent, block) * slot_size;
    log_fatal("free of %p, which is %zu bytes inside a block of %u bytes at %p", block,
              (uintptr_t)block - start, slot_size, (void *)start);
}
