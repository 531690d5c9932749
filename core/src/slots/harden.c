/* SPDX-License-Identifier: MIT */
#include "harden.h"

_Noreturn static COLD void harden_bad_block(const char *call, struct extent *extent,
                                            const void *block)
{
    uint32_t slot_size = extent->slab.slot_size;
    uintptr_t start = extent->start + (uintptr_t)slab_index(extent, block) * slot_size;
    if ((uintptr_t)block != start) {
        log_fatal("%s of %p, which is %zu bytes inside a block of %u bytes at %p", call, block,
                  (uintptr_t)block - start, slot_size, (void *)start);
    }
    if (slab_index(extent, block) >= extent->slab.capacity) {
        log_fatal("%s of %p, which is behind the last block of its slab", call, block);
    }
    if (call[0] == 'f') {
        log_fatal("double free of %p (%u bytes)", block, slot_size);
    }
    log_fatal("%s of %p (%u bytes), which is free", call, block, slot_size);
}
