/* SPDX-License-Identifier: MIT
 *
 * What C++'s operators do beyond malloc and free in secure and debug builds: the block keeps which form
 * of new made it (slots/made.h), and each form of delete takes its own blocks alone. They do so under
 * the option check_mixes; without it, and in the fast build, new is malloc and delete is free.
 *
 * In the debug build the table beside the blocks has the family. In the secure build it stands in the
 * canary, written behind what malloc wrote; delete takes it out again, so that free, which comes next,
 * finds a block of malloc's and needs no branch more than the one on a damaged canary.
 */
#include "free.h"
#include "tracking.h"

/* A block for a form of operator new; alignment 0: it was given none. NULL with errno ENOMEM. */
UNUSED ALWAYS_INLINE void *alloc_new(enum made made, size_t alignment, size_t size,
                                     uintptr_t caller)
{
    if (MW_TRACK) {
        return tracked_alloc(
            &(struct track_request){.alignment = size_max(alignment, BLOCK_ALIGNMENT),
                                    .size = size,
                                    .made = made,
                                    .is_aligned_form = alignment != 0,
                                    .caller = caller});
    }
    void *block = alignment != 0 ? alloc_plain_aligned(alignment, size) : alloc_plain(size);
    if (MW_CANARY && mixes_are_checked && likely(block != NULL)) {
        struct extent *extent = pagemap_find(block);
        if (unlikely(extent_is_hollow(extent))) {
            return block; /* nobody writes its family down */
        }
        size_t bytes = extent_is_slab(extent) ? slot_block_size(extent, block) : 0;
        block_change_family(extent, block, bytes, family_of(made, alignment));
    }
    return block;
}

/* A block for operator delete that is not what it should be: of another family,
 * or none that the program holds. Of the latter free says more. */
static NOINLINE COLD void family_look(struct extent *extent, void *block, uint8_t wanted,
                                      const char *call)
{
    bool is_held = !extent_is_slab(extent) || slot_is_held(extent, block);
    size_t size = is_held ? block_requested(call, extent, block) : 0;
    if (is_held) {
        size_t bytes = block_size(extent, block);
        uint8_t family = block_family(extent, block, bytes);
        family_differs(call, block, size, family, wanted);
        block_change_family(extent, block, bytes, family);
    }
}

/* A block for operator delete becomes one for free, if it was made by the same form of new. */
ALWAYS_INLINE void free_check_family(void *block, const struct track_return *given)
{
    struct extent *extent = pagemap_find(block);
    size_t bytes = extent->slab.slot_size;
    if (unlikely(!slab_has_slot_at(extent, block) || slab_is_common(extent) ||
                 extent_state(extent) != EXTENT_ACTIVE)) {
        if (extent_state(extent) != EXTENT_ACTIVE || !block_is_ours("free", block, extent) ||
            extent_is_hollow(extent)) {
            return;
        }
        bytes = block_size(extent, block);
    }
    uint8_t wanted = family_of(given->made, given->alignment);
    uint8_t family = block_family(extent, block, bytes);
    if (unlikely(family != wanted)) {
        family_look(extent, block, wanted, given->call);
        return;
    }
    block_change_family(extent, block, bytes, family);
}

/* A form of operator delete. */
UNUSED static void free_made(void *block, const struct track_return *given)
{
    if (MW_TRACK) {
        tracked_free(block, given);
        return;
    }
    if (given->size != SIZE_MAX) {
        free_check_size(block, size_max(given->alignment, 1), given->size);
    }
    if (MW_CANARY && mixes_are_checked && block != NULL) {
        free_check_family(block, given);
    }
    mw_free(block);
}
