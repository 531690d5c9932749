/* SPDX-License-Identifier: MIT
 *
 * What the secure and debug builds do to a slot at the moments of its life. In the fast build
 * every function here folds to nothing.
 *
 * Bitmap (slot.h): a free that finds its bit clear is a double free, certainly, however long ago
 * the first one was.
 *
 * Fill: a free slot has nothing but its link: all else is 0 (secure) or 0x5a (debug). A slot
 * that is handed out with other content was written after its free. In debug builds track.h says
 * who fills it.
 *
 * Canary (canary.h): a block that is freed, resized or measured was not written beyond its end.
 */
#ifndef MALLOW_HARDEN_H
#define MALLOW_HARDEN_H

#include "canary.h"

/* Ends the program: a free slot is about to be used again, but was written to. What lies below
 * in the layers knows whose it was. `call` as in struct fault. */
static void (*const harden_written)(const char *call, const struct slot *slot, size_t size,
                                    struct written written);

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

/* The slot goes to the program: first it leaves its list of a class, before its link is read.
 * The slab that it is of, for harden_slot_taken; NULL in the fast build ... */
ALWAYS_INLINE struct extent *harden_slot_leaves(struct slot *slot, unsigned class)
{
    struct extent *extent = NULL;
    if (MW_SLOT_BITMAP) {
        extent = pagemap_find(slot);
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
        if (unlikely(slot_set_held(extent, (uint32_t)index, true))) {
            slot_bad_link(class, slot);
        }
    }
    return extent;
}

/* The same in any build; finds the bytes. */
_Noreturn static COLD void harden_bad_content(const char *call, const struct slot *slot,
                                              size_t size)
{
    if (MW_TRACK) {
        harden_written(call, slot, size, slot_find_written(slot, size));
    }
    slot_bad_content(call, slot, size);
}

/* Of a slot of more than FILL_NEAR bytes, whether all behind these has the fill; where its
 * middle is spared, whether its ends have it. */
static NOINLINE bool slot_rest_is_fill(const struct slot *slot, size_t size, size_t whole);

/* Where the pairs of a slot of up to FILL_NEAR bytes begin, but for the first two and the last:
 * a row for each number of pairs, in which the last one stands for those that the slot does not
 * have. So a slot of any size is filled and looked at without a branch, which a processor
 * guesses wrong where sizes are mixed: that takes longer than to touch some bytes twice. */
#define NEAR_PAIR(at, last) ((at) < (last) ? (at) : (last))
#define NEAR_PAIRS(last)                                                                    \
    {                                                                                       \
        NEAR_PAIR(32, last), NEAR_PAIR(48, last), NEAR_PAIR(64, last), NEAR_PAIR(80, last), \
            NEAR_PAIR(96, last)                                                             \
    }
static const uint8_t near_pairs[][8] = {
    NEAR_PAIRS(0),  NEAR_PAIRS(0),  NEAR_PAIRS(16), NEAR_PAIRS(32),  NEAR_PAIRS(48),
    NEAR_PAIRS(64), NEAR_PAIRS(80), NEAR_PAIRS(96), NEAR_PAIRS(112),
};
static_assert(array_count(near_pairs) - 1 == FILL_NEAR / sizeof(word_pair),
              "there is a row for each such slot");

ALWAYS_INLINE word_pair *slot_pair(const struct slot *slot, size_t at)
{
    return (word_pair *)((uintptr_t)slot + at);
}

/* 0 if the words behind the link of a slot of `near` bytes, at most FILL_NEAR, have the fill. */
ALWAYS_INLINE uint64_t slot_near_differs(const struct slot *slot, size_t near)
{
    const uint8_t *at = near_pairs[near / sizeof(word_pair)];
    const word_pair fill = FILL_FREE_PAIR;
    const uint64_t *words = (const uint64_t *)slot;
    check(near >= sizeof fill && near <= FILL_NEAR && near % sizeof fill == 0);
    if (unlikely(near == sizeof fill)) {
        return words[1] ^ FILL_FREE_WORD;
    }
    word_pair other = (*slot_pair(slot, sizeof fill) ^ fill) | (*slot_pair(slot, at[0]) ^ fill) |
                      (*slot_pair(slot, at[1]) ^ fill) | (*slot_pair(slot, at[2]) ^ fill) |
                      (*slot_pair(slot, at[3]) ^ fill) | (*slot_pair(slot, at[4]) ^ fill) |
                      (*slot_pair(slot, near - sizeof fill) ^ fill);
    return (words[1] ^ FILL_FREE_WORD) | other[0] | other[1];
}

/* Whether the words behind the link have the fill of a free slot: all of them up to a size of
 * `whole`, of a larger one FILL_EDGE bytes at each end. */
ALWAYS_INLINE bool slot_fill_is_whole(const struct slot *slot, size_t size, size_t whole)
{
    if (size <= FILL_NEAR) {
        return slot_near_differs(slot, size) == 0;
    }
    return slot_near_differs(slot, FILL_NEAR) == 0 && slot_rest_is_fill(slot, size, whole);
}

/* The same for every byte. */
ALWAYS_INLINE bool slot_is_all_fill(const struct slot *slot, size_t size)
{
    size_t behind = size - sizeof *slot;
    return fill_differs((const unsigned char *)(slot + 1), behind, FILL_FREE) == behind;
}

ALWAYS_INLINE void slot_fill_small(struct slot *slot, size_t size)
{
    const uint8_t *at = near_pairs[size / sizeof(word_pair)];
    const word_pair fill = FILL_FREE_PAIR;
    check(size >= sizeof fill && size <= FILL_NEAR && size % sizeof fill == 0);
    *slot_pair(slot, 0) = fill;
    if (unlikely(size == sizeof fill)) {
        return;
    }
    *slot_pair(slot, sizeof fill) = fill;
    *slot_pair(slot, at[0]) = fill;
    *slot_pair(slot, at[1]) = fill;
    *slot_pair(slot, at[2]) = fill;
    *slot_pair(slot, at[3]) = fill;
    *slot_pair(slot, at[4]) = fill;
    *slot_pair(slot, size - sizeof fill) = fill;
}

ALWAYS_INLINE void slot_fill(void *block, size_t size)
{
    if (likely(size <= FILL_NEAR)) {
        slot_fill_small(block, size);
    } else {
        *(uint64_t *)block = FILL_FREE_WORD;
        slot_fill_behind_link(block, size, strength.fill_whole);
    }
}

/* ... then, its link read, it becomes a block of `size` bytes, of a family. */
ALWAYS_INLINE void harden_slot_taken(struct extent *extent, struct slot *slot, size_t size,
                                     uint8_t family)
{
    if (!MW_SLOT_BITMAP) {
        return;
    }
    size_t block_size = slot_block_size(extent, slot);
    if (MW_CODED_LINKS && unlikely(!slot_link_is_plausible(slot))) {
        harden_bad_content("malloc", slot, block_size);
    }
    if (MW_FILL) {
        bool is_whole = MW_TRACK ? slot_is_all_fill(slot, block_size)
                                 : slot_fill_is_whole(slot, block_size, strength.look_whole);
        if (unlikely(!is_whole)) {
            harden_bad_content("malloc", slot, block_size);
        }
        slot->link = 0; /* nobody learns what an encoded link looks like */
    }
    canary_place_new(extent, slot, block_size, size, family);
}

/* Both for the first slot of a list, which in most cases is of the slab that the heap allocates
 * from: then nobody has to look up whose it is. `index` is its number there; `is_near`: it has
 * at most FILL_NEAR bytes. */
ALWAYS_INLINE void harden_first_taken(struct extent *extent, struct slot **list, uint64_t index,
                                      size_t size, uint8_t family, bool is_near)
{
    struct slot *slot = *list;
    size_t slot_size = extent->slab.slot_size;
    struct slot *next = slot_next(slot);
    *list = next;
    __builtin_prefetch(next);
    __builtin_prefetch((const void *)((uintptr_t)next + slot_size - 1)); /* next may be NULL */
    if (unlikely(slot_set_held_by_owner(extent, index, true))) {
        slot_bad_link(extent->slab.class, slot);
    }
    check(is_near == (slot_size <= FILL_NEAR));
    uint64_t differs = slot_near_differs(slot, is_near ? slot_size : FILL_NEAR);
    if (unlikely((((uintptr_t)next & SLOT_LINK_NEVER) | differs) != 0) ||
        (!is_near && unlikely(!slot_rest_is_fill(slot, slot_size, strength.look_whole)))) {
        harden_bad_content("malloc", slot, slot_size);
    }
    slot->link = 0; /* nobody learns what an encoded link looks like */
    canary_place_new(extent, slot, slot_size, size, family);
}

/* Whether a free clears the bit of a slot that is not of the heap's own slabs at once. Else the
 * slot is unsettled, and slot_settle is due before it can be handed out. */
ALWAYS_INLINE bool harden_settles_at_once(void)
{
    return MW_PLAIN_BITS && libc_has_one_thread();
}

/* The program gives a slot back that is not of the heap's own slabs, of `block_size` bytes.
 * False if the block is not as it should be: see canary_odd_free, or free. */
ALWAYS_INLINE bool harden_any_slot_freed(struct extent *extent, void *block, size_t block_size,
                                         bool settles)
{
    uint64_t index = slab_slot_number(extent, block);
    if (unlikely(index >= extent->slab.capacity) ||
        (settles && unlikely(!slot_set_held(extent, (uint32_t)index, false)))) {
        harden_bad_block("free", extent, block);
    }
    return settles ? likely(canary_is_of(extent, block, block_size, 0, SIZE_MAX))
                   : likely(canary_take(extent, block, block_size));
}

/* The program gives a slot of a heap's own slab back, by a release for a family, with a size or
 * SIZE_MAX. Ends it if it does not hold the slot. False if the block is not as it should be, of
 * which canary_odd_free tells. With canaries it is harden_slot_freed and what delete checks, in
 * fewer steps; but for the fill. */
ALWAYS_INLINE bool harden_own_slot_freed(struct extent *extent, void *block, uint8_t family,
                                         size_t size)
{
    struct slab *slab = &extent->slab;
    uint64_t index = slab_slot_number(extent, block);
    if (unlikely(index >= slab->capacity || !slot_set_held_by_owner(extent, index, false))) {
        harden_bad_block(made_release((enum made)(family & 3)), extent, block);
    }
    return likely(canary_is_of(extent, block, slab->slot_size, family, size));
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
        if (unlikely(!slot_set_held(extent, index, false))) {
            harden_bad_block("free", extent, block);
        }
    }
    canary_check_freed(extent, block);
    if (MW_FILL && !MW_TRACK) {
        slot_fill(block, slot_block_size(extent, block));
    }
}

/* Clears the bit of an unsettled slot. Ends the program if it is clear, or if there is a canary
 * again: then the slot was freed twice, and may even have another owner. */
static void slot_settle(struct slot *slot, size_t block_size);

/* A slab is about to be plain pages, with nothing in any list: whoever gets these learns no
 * encoded link, from two of which he could compute the keys and where they lie. */
static void harden_forget_links(struct extent *extent);

/* The same where the slots of a slab are all free, and it is not common: first looks at what is in
 * them. */
static void harden_slab_empty(struct extent *extent);

/* The program resizes or measures the slot. Ends it if it does not hold the slot, or has written
 * beyond its end. */
ALWAYS_INLINE void harden_slot_looked_at(const char *call, struct extent *extent, const void *block)
{
    if (MW_SLOT_BITMAP) {
        if (unlikely(slab_index(extent, block) >= extent->slab.capacity ||
                     !slot_is_held(extent, block))) {
            harden_bad_block(call, extent, block);
        }
    }
}

#endif
