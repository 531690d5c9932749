/* SPDX-License-Identifier: MIT
 *
 * What the secure and debug builds do to a slot at the moments of its life. In the fast build
 * every function here folds to nothing.
 *
 * Bitmap (slot.h): a free that finds its bit clear is a double free, certainly, however long ago the
 * first one was.
 *
 * Fill: a free slot is 0x5a, but for the link in its first word; track.h says who fills it. One that
 * is handed out with other content was written after its free.
 */
#ifndef MALLOW_HARDEN_H
#define MALLOW_HARDEN_H

#include "common.h"

/* Ends the program: a free slot is about to be used again, but its byte `at` is not what free left
 * there. In track.c. */
_Noreturn static COLD void harden_written(const struct slot *slot, size_t size, size_t at);

/* The first byte of a range that has another value; `size` if there is none. In track.c. */
static size_t fill_differs(const unsigned char *at, size_t size, unsigned char fill);

ALWAYS_INLINE size_t harden_block_size(struct extent *extent, const void *block)
{
    return slab_is_common(extent) ? common_block_size(extent, block) : extent->slab.slot_size;
}

/* Ends the program unless a list of free slots of a class may go on with `slot`: before anybody
 * reads what is there. */
ALWAYS_INLINE void list_slot_check(struct slot *slot, unsigned class)
{
    if (MW_SLOT_BITMAP) {
        struct extent *extent = pagemap_find(slot);
        bool is_of_class =
            slab_has_slot(extent, slot) &&
            (slab_is_common(extent) ? common_block_serves(extent, slab_index(extent, slot), class)
                                    : extent->slab.class == class);
        if (unlikely(!is_of_class || slot_is_held(extent, slot))) {
            slot_bad_link(class, slot);
        }
    }
}

/* The slot goes to the program: first it leaves its list of a class, before its link is read ... */
ALWAYS_INLINE void harden_slot_leaves(struct slot *slot, unsigned class)
{
    if (MW_SLOT_BITMAP) {
        struct extent *extent = pagemap_find(slot);
        uint64_t index = slab_slot_number(extent, slot);
        if (unlikely(index >= extent->slab.capacity || !extent_is_slab(extent))) {
            slot_bad_link(class, slot);
        }
        bool is_of_class = likely(!slab_is_common(extent))
                               ? extent->slab.class == class
                               : common_block_serves(extent, (uint32_t)index, class);
        if (unlikely(!is_of_class)) {
            slot_bad_link(class, slot);
        }
        uint64_t bit = (uint64_t)1 << (index % 64);
        uint64_t old =
            atomic_fetch_or_explicit(live_word(extent, (uint32_t)index), bit, memory_order_acquire);
        if (unlikely((old & bit) != 0)) {
            slot_bad_link(class, slot);
        }
    }
}

/* ... then, its link read, nobody may have written to what free filled. */
ALWAYS_INLINE void harden_slot_taken(struct slot *slot)
{
    if (MW_FILL) {
        size_t size = harden_block_size(pagemap_find(slot), slot) - sizeof(struct slot);
        size_t at = fill_differs((const unsigned char *)(slot + 1), size, FILL_FREE);
        if (unlikely(at != size)) {
            harden_written(slot, sizeof(struct slot) + size, sizeof(struct slot) + at);
        }
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
}

/* The program resizes the slot. Ends it if it does not hold the slot. */
ALWAYS_INLINE void harden_slot_resized(struct extent *extent, const void *block)
{
    if (MW_SLOT_BITMAP) {
        if (unlikely(slab_index(extent, block) >= extent->slab.capacity ||
                     !slot_is_held(extent, block))) {
            harden_bad_block("realloc", extent, block);
        }
    }
}

#endif
