/* SPDX-License-Identifier: MIT
 *
 * Fences, in the secure build: a huge block lies between pages without access, in one mapping.
 *
 *     | front: 1 to FENCE_FRONT_MOST pages | the block's extent | tail: 1 page, or what it gave up |
 *
 * The extent is the middle alone. How many pages are in front is random, so that nobody can tell where
 * the next block begins. A block that becomes smaller leaves its pages to the tail, and may have them
 * again; a tail that is cut has access but for its first page and its last. Marks in the page tables
 * (Linux 6.13) cost no mapping; without them each fence costs two, and there are no more than
 * FENCES_PROTECTED_MOST of these. A fence without guards is a plain mapping.
 */
#ifndef MALLOW_FENCE_H
#define MALLOW_FENCE_H

#include "extent.h"

#define FENCE_FRONT_MOST 32u

/* Of a larger alignment nothing lies in front. */
#define FENCE_ALIGNMENT_MAX (1 * MiB)

#define FENCES_PROTECTED_MOST 4096u

/* Where blocks are: somewhere in so much, for which the page map takes two leaves of 1 MiB of address
 * space, and which is somewhere below the second. */
#define FENCE_WINDOW ((uintptr_t)1024 * MiB)
#define FENCE_PLACE_LIMIT ((uintptr_t)1 << 46)

#if MW_FENCES
ALWAYS_INLINE struct fence *extent_fence(struct extent *extent)
{
    return &extent->fence;
}
#else
static struct fence fence_none; /* never written to */

ALWAYS_INLINE struct fence *extent_fence(struct extent *extent)
{
    (void)extent;
    return &fence_none;
}
#endif

ALWAYS_INLINE bool extent_has_fence(struct extent *extent)
{
    return MW_FENCES && (extent_fence(extent)->front | extent_fence(extent)->tail) != 0;
}

/* Maps so many bytes, with guards in builds that have fences. NULL if out of memory. */
static char *fence_map(size_t size, size_t alignment, struct fence *fence);

/* Whether one of the last blocks whose mapping was dropped or moved began there, and nobody has mapped anything there
 * that can be read. */
static COLD bool fence_left(const void *block);

/* Drops the mapping. False if the kernel refused: then nothing has changed. */
static bool fence_unmap(void *start, size_t size, struct fence *fence);

/* Makes the block of an extent longer, at another address perhaps; the caller writes the descriptor.
 * NULL if the kernel cannot: then it is as it was. */
static char *fence_remap(struct extent *extent, size_t size);

/* Whether the extent can become longer in place, of pages of its tail. */
static bool fence_has_room(struct extent *extent, size_t pages);

/* Gives pages to the tail or takes them back; the caller writes the descriptor. False if the kernel
 * refused: then nothing has changed. */
static bool fence_resize(struct extent *extent, size_t pages);

/* Gives pages to the tail whose memory stays: the first of them alone loses its access. */
static bool fence_cut(struct extent *extent, size_t pages);

/* Takes the access to the block and its memory away, and gives the access back. False if the kernel
 * refused. */
static bool fence_shut(struct extent *extent);
static bool fence_open(struct extent *extent);

/* The same of a block that has no guards. */
UNUSED static bool fence_reopen(struct extent *extent);

#endif
