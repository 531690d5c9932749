/* SPDX-License-Identifier: MIT
 *
 * The entry points that allocate, and what they share with realloc and operator new.
 */
#ifndef MALLOW_ALLOC_H
#define MALLOW_ALLOC_H

#include "../../include/mallow.h"
#include "../os/fault.h"
#include "../slots/guarded.h"
#include "../slots/harden.h"
#include "../thread/count.h"
#include "../thread/magazine.h"
#include "../thread/remote.h"
#include "../thread/route.h"
#include "../thread/sampling.h"
#include "../thread/stack.h"
#include "../thread/thread.h"
#include "../thread/tick.h"
#include "tracking.h"

/* Any size; NULL with errno ENOMEM if out of memory. The alignment is a power of two. */
static NOINLINE void *alloc_slow(size_t size);

/* calloc of all but the next slot of a list. */
static NOINLINE void *alloc_zeroed(size_t size);
static void *alloc_plain(size_t size);
static void *alloc_plain_aligned(size_t alignment, size_t size);
static void *alloc_aligned(size_t alignment, size_t size);
static void *alloc_zeroed(size_t size);

/* What a request of at most SLOT_REQUEST_MAX bytes takes of a slot. */
ALWAYS_INLINE size_t slot_bytes(size_t size)
{
    return MW_CANARY ? size + CANARY_BYTES : size + (size == 0);
}

/* The same above SMALL_REQUEST_MAX; a large block needs no more than its size. */
ALWAYS_INLINE size_t medium_bytes(size_t size)
{
    return size + (size <= SLOT_MAX ? CANARY_BYTES : 0);
}

/* What every block is aligned to, whatever its size. */
#define BLOCK_ALIGNMENT 16u

/* In the secure build the block keeps its alignment. */
ALWAYS_INLINE void *alloc_note_alignment(void *block, size_t alignment, size_t size)
{
    if (MW_CANARY && likely(block != NULL)) {
        struct extent *extent = pagemap_find(block);
        if (!extent_is_hollow(extent) && !extent_is_guarded(extent)) {
            canary_note_alignment(extent, block, size, alignment);
        }
    }
    return block;
}

/* With the fill options: fills a block, which may be NULL and may read as zero, as a new one. Returns it. */
static void *alloc_filled(void *block, size_t size, bool is_zero);

/* The same for what a block has on top of its old size. */
ALWAYS_INLINE void fill_grown(void *block, size_t old_size, size_t size)
{
    if (size > old_size) {
        alloc_filled((char *)block + old_size, size - old_size, false);
    }
}

/* A block directly from an arena; NULL if out of memory, errno is left alone. *is_zero says whether it
 * reads as zero. `heap` chooses samples; NULL: none is taken. */
static void *alloc_direct(struct heap *heap, struct direct *direct, size_t alignment, size_t size,
                          bool *is_zero);

/* The same for a block that the program gets as it is, though others are tracked. */
static void *alloc_untracked(struct direct *direct, size_t alignment, size_t size, bool *is_zero);

/* A sample that the program gets and not a block of this class out of a cache of its own; NULL: that block
 * is none. */
static void *alloc_in_place_of_cached(unsigned class, size_t size);

/* The smallest class of at least `size` whose slots are all aligned, in slabs that begin at
 * multiples of `alignment`. Between two powers of two the classes lie equally far apart: if the
 * alignment divides that distance, all are multiples of it, else all multiples of it are
 * classes. */
ALWAYS_INLINE unsigned class_of_aligned(size_t alignment, size_t size)
{
    return class_of(align_up(slot_bytes(size), alignment));
}

/* Whether a block of so many bytes that the calling thread gets past its lists and stacks is a sample. */
static bool alloc_is_sampled(size_t size);

/* Whether there may ever be a large block of this kind. */
static bool alloc_is_possible(size_t alignment, size_t size);

/* NULL with errno ENOMEM, or the end of the program with the option xmalloc. */
static COLD void *alloc_failed(void);

#endif
