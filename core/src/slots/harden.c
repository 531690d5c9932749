/* SPDX-License-Identifier: MIT */
#include "harden.h"

#define EIGHT_PAIRS ((ptrdiff_t)(8 * sizeof(word_pair)))

ALWAYS_INLINE word_pair eight_pairs_differ(const char *from)
{
    const word_pair fill = FILL_FREE_PAIR;
    const word_pair *at = (const word_pair *)from;
    word_pair other = (at[0] ^ fill) | (at[1] ^ fill) | (at[2] ^ fill) | (at[3] ^ fill);
    return other | (at[4] ^ fill) | (at[5] ^ fill) | (at[6] ^ fill) | (at[7] ^ fill);
}

/* Eight pairs without a branch, and the last eight again with what is left in front of them: the range has that
 * many, or as many lie in front of it in the same slot and have been looked at. */
ALWAYS_INLINE bool range_is_fill(const char *start, const char *end)
{
    check(start < end && ((uintptr_t)start | (uintptr_t)end) % sizeof(word_pair) == 0);
    word_pair other = eight_pairs_differ(end - EIGHT_PAIRS);
    for (; end - start > EIGHT_PAIRS; start += EIGHT_PAIRS) {
        other |= eight_pairs_differ(start);
    }
    return (other[0] | other[1]) == 0;
}

/* The same of a slot of at most so many bytes, what lies behind FILL_NEAR, without a loop: where sizes are mixed a
 * processor guesses wrong how often one turns, which takes longer than to look at some bytes twice. */
#define FILL_MIDDLE (4 * FILL_NEAR)
static_assert(FILL_NEAR == EIGHT_PAIRS && FILL_MIDDLE <= 2 * FILL_EDGE,
              "three blocks, none spared");

ALWAYS_INLINE bool slot_middle_is_fill(const char *start, size_t size)
{
    size_t last = size - FILL_NEAR;
    word_pair other = eight_pairs_differ(start + last) |
                      eight_pairs_differ(start + size_min(FILL_NEAR, last)) |
                      eight_pairs_differ(start + size_min(2 * FILL_NEAR, last));
    return (other[0] | other[1]) == 0;
}

static NOINLINE bool slot_rest_is_fill(const struct slot *slot, size_t size, size_t whole)
{
    const char *start = (const char *)slot;
    const char *end = start + size;
    check(size > FILL_NEAR);
    if (size <= FILL_MIDDLE) {
        return slot_middle_is_fill(start, size);
    }
    if (strength_spares_middle(size, whole)) {
        return range_is_fill(start + FILL_NEAR, start + FILL_EDGE) &&
               range_is_fill(end - FILL_EDGE, end);
    }
    return range_is_fill(start + FILL_NEAR, end);
}

static COLD void settle_failed(struct extent *extent, struct slot *slot, size_t block_size)
{
    if (slot_is_held(extent, slot) && canary_read(extent, slot, block_size) == CANARY_DAMAGED) {
        slot_bad_content("free", slot, block_size);
    }
    harden_bad_block("free", extent, slot);
}

UNUSED static void slot_settle(struct slot *slot, size_t block_size)
{
    struct extent *extent = pagemap_find(slot);
    const char *last = (const char *)slot + block_size - CANARY_BYTES;
    bool is_as_left = load_unaligned(last) == FILL_FREE_WORD;
    if (unlikely(!is_as_left || !slot_set_held(extent, slab_index(extent, slot), false))) {
        settle_failed(extent, slot, block_size);
    }
}

static void harden_forget_links(struct extent *extent)
{
    struct slab_order order = slab_order(extent);
    for (uint32_t i = 0; MW_CODED_LINKS && i < extent->slab.carved; i++) {
        uintptr_t distance = (uintptr_t)slab_slot_of_turn(&order, i) * extent->slab.slot_size;
        ((struct slot *)(extent->start + distance))->link = FILL_FREE_WORD;
    }
}

static void harden_slab_empty(struct extent *extent)
{
    uint32_t size = extent->slab.slot_size;
    check(slab_used(extent) == 0 && extent_is_slab(extent));
    struct slab_order order = slab_order(extent);
    for (uint32_t i = 0; MW_FILL && i < extent->slab.carved; i++) {
        uintptr_t distance = (uintptr_t)slab_slot_of_turn(&order, i) * size;
        struct slot *slot = (struct slot *)(extent->start + distance);
        if (unlikely(!slot_link_is_plausible(slot) ||
                     !slot_fill_is_whole(slot, size, strength.look_whole))) {
            harden_bad_content("free", slot, size);
        }
    }
    harden_forget_links(extent);
}
