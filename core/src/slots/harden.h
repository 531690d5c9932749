/* SPDX-License-Identifier: MIT
 *
 * What the secure and debug builds do to a slot at the moments of its life. In the fast build
 * every function here folds to nothing.
 *
 * Bitmap: a bit per slot in the descriptor says whether the program holds the slot. It is set and
 * cleared atomically, because any thread may free. A free that finds its bit clear is a double
 * free, certainly, however long ago the first one was.
 *
 * Fill: a slot is 0xa5 when the program gets it and 0x5a when it is free, but for the link in its
 * first word. A free slot that is handed out with other content was written after its free.
 */
#ifndef MALLOW_HARDEN_H
#define MALLOW_HARDEN_H

#include "common.h"

#include <string.h>

#define FILL_NEW 0xa5
#define FILL_FREE 0x5a

/* Ends the program with a sentence about a call ("free", "realloc") on a block of a slab that is
 * not one that the program holds. */
_Noreturn static COLD void harden_bad_block(const char *call, struct extent *extent,
                                            const void *block);

#if MW_SLOT_BITMAP
ALWAYS_INLINE _Atomic uint64_t *live_word(struct extent *extent, uint32_t index)
{
    return &extent->live[index / 64];
}
#else
ALWAYS_INLINE _Atomic uint64_t *live_word(struct extent *extent, uint32_t index)
{
    (void)extent;
    (void)index;
    return NULL;
}
#endif

ALWAYS_INLINE void harden_slab_created(struct extent *extent)
{
    if (MW_SLOT_BITMAP) {
        for (uint32_t i = 0; i < SLAB_SLOTS_MAX; i += 64) {
            atomic_set(live_word(extent, i), 0);
        }
    }
}

ALWAYS_INLINE void harden_slots_carved(struct extent *extent, char *first, size_t count)
{
    if (MW_FILL) {
        for (size_t i = 0; i < count; i++) {
            char *slot = first + i * extent->slab.slot_size;
            memset(slot + sizeof(struct slot), FILL_FREE,
                   extent->slab.slot_size - sizeof(struct slot));
        }
    }
}

ALWAYS_INLINE size_t harden_block_size(struct extent *extent, const void *block)
{
    return slab_is_common(extent) ? common_block_size(extent, block) : extent->slab.slot_size;
}

/* The slot goes to the program. Its link is already read. */
ALWAYS_INLINE void harden_slot_taken(struct slot *slot)
{
    struct extent *extent = MW_SLOT_BITMAP ? pagemap_find(slot) : NULL;
    if (MW_SLOT_BITMAP) {
        uint32_t index = slab_index(extent, slot);
        if (unlikely(index >= extent->slab.capacity)) {
            log_fatal("free list of %u-byte blocks is damaged: it names %p, which is none",
                      extent->slab.slot_size, (void *)slot);
        }
        uint64_t bit = (uint64_t)1 << (index % 64);
        uint64_t old =
            atomic_fetch_or_explicit(live_word(extent, index), bit, memory_order_acquire);
        if (unlikely((old & bit) != 0 || !slab_has_slot_at(extent, slot))) {
            log_fatal("free list of %u-byte blocks is damaged: it names %p, which is in use",
                      extent->slab.slot_size, (void *)slot);
        }
    }
    if (MW_FILL) {
        const unsigned char *bytes = (const unsigned char *)slot;
        size_t size = harden_block_size(extent, slot);
        for (size_t i = sizeof(struct slot); i < size; i++) {
            if (unlikely(bytes[i] != FILL_FREE)) {
                log_fatal("write after free: byte %zu of %p (%zu bytes) is 0x%x", i, (void *)slot,
                          size, bytes[i]);
            }
        }
        memset(slot, FILL_NEW, size);
    }
}

/* The program gives the slot back, which begins at `block`. Ends it if it does not hold the
 * slot. */
ALWAYS_INLINE void harden_slot_freed(struct extent *extent, void *block)
{
    if (MW_SLOT_BITMAP) {
        uint32_t index = slab_index(extent, block);
        if (unlikely(index >= extent->slab.capacity)) {
            harden_bad_block("free", extent, block); /* behind the last slot */
        }
        uint64_t bit = (uint64_t)1 << (index % 64);
        uint64_t old =
            atomic_fetch_and_explicit(live_word(extent, index), ~bit, memory_order_release);
        if (unlikely((old & bit) == 0)) {
            harden_bad_block("free", extent, block);
        }
    }
    if (MW_FILL) {
        memset(block, FILL_FREE, harden_block_size(extent, block));
    }
}

/* Whether the program is known to hold the slot that begins at `block`; in the fast build of none. */
ALWAYS_INLINE bool harden_slot_is_held(struct extent *extent, const void *block)
{
    uint32_t index = slab_index(extent, block);
    return MW_SLOT_BITMAP && (index >= extent->slab.capacity ||
                              (atomic_get(live_word(extent, index)) >> (index % 64) & 1) != 0);
}

/* The program resizes the slot. Ends it if it does not hold the slot. */
ALWAYS_INLINE void harden_slot_resized(struct extent *extent, const void *block)
{
    if (MW_SLOT_BITMAP) {
        if (unlikely(slab_index(extent, block) >= extent->slab.capacity ||
                     !harden_slot_is_held(extent, block))) {
            harden_bad_block("realloc", extent, block);
        }
    }
}

#endif
