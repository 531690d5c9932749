/* SPDX-License-Identifier: MIT
 *
 * What C++'s operators do beyond malloc and free in secure and debug builds: the block keeps which form
 * of new made it (slots/made.h), and each form of delete takes its own blocks alone; slots/mixes.h says what
 * is told. In the fast build new is malloc and delete is free.
 *
 * In the debug build the table beside the blocks has the family. In the secure build it stands in the
 * canary: the hit paths of new and delete are those of malloc and free with another constant in it. On slow
 * paths it is written behind what malloc wrote, and taken out before free looks.
 */
#include "free.h"
#include "tagged.h"
#include "tracking.h"

/* Writes down what family a block is of: it is malloc's so far. */
static void alloc_mark(void *block, uint8_t family)
{
    struct extent *extent = pagemap_find(block);
    if (likely(block != NULL) && !extent_is_hollow(extent) && !extent_is_guarded(extent)) {
        size_t bytes = extent_is_slab(extent) ? slot_block_size(extent, block) : 0;
        block_change_family(extent, block, bytes, family);
    }
}

static NOINLINE void *alloc_marked(size_t size, uint8_t family)
{
    void *block = alloc_plain(size);
    alloc_mark(block, family);
    return block;
}

ALWAYS_INLINE void *alloc_made(enum made made, size_t alignment, size_t size, uintptr_t caller)
{
    if (MW_TRACK) {
        return tracked_alloc(
            &(struct track_request){.alignment = size_max(alignment, BLOCK_ALIGNMENT),
                                    .size = size,
                                    .made = made,
                                    .is_aligned_form = alignment != 0,
                                    .caller = caller});
    }
    if (!MW_CANARY) {
        return alignment != 0 ? alloc_plain_aligned(alignment, size) : alloc_plain(size);
    }
    uint8_t family = family_of(made, alignment);
    if (alignment == 0) {
        if (likely(size - 1 < SMALL_REQUEST_MAX)) {
            struct heap *heap = heap_self;
            unsigned class = class_of_slot(size + CANARY_BYTES);
            if (likely(heap->free[class] != NULL)) {
                return alloc_first(heap, class, size, family);
            }
        }
        return alloc_marked(size, family);
    }
    void *block = alloc_plain_aligned(alignment, size);
    alloc_mark(block, family);
    return block;
}

/* A block for a form of operator new; alignment 0: it was given none. NULL with errno ENOMEM. */
UNUSED ALWAYS_INLINE void *alloc_new(enum made made, size_t alignment, size_t size,
                                     uintptr_t caller)
{
    if (!tags_are_on()) {
        return alloc_made(made, alignment, size, caller);
    }
    uint64_t before = tags_ignore();
    void *pointer = tagged_give(alloc_made(made, alignment, size, caller));
    tags_check_again(before);
    return pointer;
}

/* A block for operator delete that is not what it should be: of another family,
 * or none that the program holds. Of the latter free says more. */
static NOINLINE COLD void family_look(struct extent *extent, void *block, uint8_t wanted,
                                      const char *call)
{
    bool is_held = !extent_is_slab(extent) ||
                   (slot_is_held(extent, block) && !(MW_CANARY && slot_is_unsettled(block)));
    size_t size = is_held ? block_requested(call, extent, block) : 0;
    if (is_held) {
        size_t bytes = block_size(extent, block);
        uint8_t family = block_family(extent, block, bytes);
        family_differs(call, block, size, family, wanted);
        block_clear_family(extent, block, bytes, family);
    }
}

/* A block for operator delete becomes one for free, if it was made by the same form of new. */
static void free_check_family(void *block, uint8_t wanted, const char *call)
{
    struct extent *extent = pagemap_find(block);
    if (!block_is_ours(call, block, extent) || extent_is_hollow(extent) ||
        extent_is_guarded(extent)) {
        return;
    }
    size_t bytes = block_size(extent, block);
    uint8_t family = block_family(extent, block, bytes);
    if (unlikely(family != wanted)) {
        family_look(extent, block, wanted, call);
        return;
    }
    block_clear_family(extent, block, bytes, family);
}

static NOINLINE void free_marked(void *block, uint8_t family, size_t size)
{
    if (size != SIZE_MAX) {
        free_check_size(block, 1, size);
    }
    if (block != NULL) {
        free_check_family(block, family, made_release((enum made)(family & 3)));
    }
    mw_free(block);
}

ALWAYS_INLINE void free_of_made(void *block, const struct track_return *given)
{
    if (MW_TRACK) {
        tracked_free(block, given);
        return;
    }
    uint8_t family = MW_CANARY ? family_of(given->made, given->alignment) : 0;
    struct extent *extent = pagemap_find(block);
    struct heap *heap = heap_self;
    if (given->alignment == 0) {
        if (likely(!atomic_differs(&extent->owner, heap))) {
            free_own(heap, extent, block, family, given->size);
        } else {
            free_marked(block, family, given->size);
        }
        return;
    }
    if (given->size != SIZE_MAX) {
        free_check_size(block, given->alignment, given->size);
    }
    if (MW_CANARY && block != NULL) {
        free_check_family(block, family, given->call);
    }
    mw_free(block);
}

/* A form of operator delete. */
UNUSED ALWAYS_INLINE void free_made(void *block, const struct track_return *given)
{
    if (!tags_are_on()) {
        free_of_made(block, given);
        return;
    }
    uint64_t before = tags_ignore();
    free_of_made(tagged_take(given->call, block), given);
    tags_check_again(before);
}
