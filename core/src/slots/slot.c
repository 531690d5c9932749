/* SPDX-License-Identifier: MIT */
#include "slot.h"

#include "../os/log.h"

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

_Noreturn static COLD void slot_bad_link(unsigned class, const void *link)
{
    uint32_t slot_size = class_size(class);
    if (link == NULL) {
        log_fatal("free list of %u-byte blocks is damaged: it ends too early", slot_size);
    }
    struct extent *extent = pagemap_find(link);
    log_fatal("free list of %u-byte blocks is damaged: it names %p, which is %s", slot_size, link,
              slab_has_slot(extent, link) && slot_is_held(extent, link) ? "in use" : "none");
}
