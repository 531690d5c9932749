/* SPDX-License-Identifier: MIT
 *
 * How a heap takes samples for a profile, and chooses blocks to guard (slots/guarded.h), without a word of it
 * on the hit paths: a list ends where one of either is due, so that the call that finds it empty is that one.
 * There is one countdown for both: its rate is the sum of theirs, and where it ends chance says which it is.
 *
 *   small     the list is filled with as many slots as come before the next sample, or with fewer, and
 *             heap_until_sample is what is left. What goes back with a list before its end is left too. Of the
 *             slots of others that free keeps there each has its own chance, see keep.h
 *   medium    free pushes to the list as well. Each slot that comes into the list has the same chance to be
 *             one whose turn is a sample (chance.h); then the list is emptied, and the next call is the sample
 *   pages     in the same way, while the stacks are private; a call that finds no block in a list comes to
 *             alloc_large, which counts bytes
 *
 * A sample is an extent of its own, whatever its size. Blocks of pages are never guarded.
 */
#ifndef MALLOW_SAMPLING_H
#define MALLOW_SAMPLING_H

#include "heap.h"

/* Begins or ends to take samples if the profile says so now. The calling thread's heap, or the shared
 * one, which never takes any. */
static void heap_follow_profile(struct heap *heap);

/* Ends it, for the thread ends. */
static void heap_stop_sampling(struct heap *heap);

/* The list of a class is empty, and the heap takes samples: whether this call is one. If not, the list is
 * to be filled by heap_refill_sampling. */
static bool heap_sample_is_due(struct heap *heap, unsigned class);

/* Whether the sample of which that was said is a guarded block. */
static bool heap_takes_guard(struct heap *heap, unsigned class);

/* Whether the next sample of a class comes behind so many slots, so that a list of no more may be taken as if no samples
 * were. Not where heap_note_handed would draw anew. */
ALWAYS_INLINE bool heap_sample_is_behind(struct heap *heap, unsigned class, uint32_t slots)
{
    return heap_until_sample(heap, class) - slots <= INT32_MAX / 4 &&
           heap->sample_thinning[class] <= heap->sampler.thinning;
}

/* Whether a list of a small class is filled as if no samples were: no list is longer than uncut_most, and the candidate
 * is of slots as large. */
ALWAYS_INLINE bool heap_may_refill_plainly(struct heap *heap, unsigned class)
{
    check(heap->list_max <= heap->uncut_most);
    return !class_is_medium(class) && class <= heap->candidate.largest &&
           heap_sample_is_behind(heap, class, heap->uncut_most);
}

/* A list for a class from the local list of its current slab, which is not empty, or of a ready one; up to the next
 * sample at most. NULL if that is not for the hit path: a sample is due. */
static struct slot *heap_take_local_sampling(struct heap *heap, unsigned class);

/* Fills the list of a class up to the next sample at most. */
static struct slot *heap_refill_sampling(struct heap *heap, unsigned class, bool must_be_aligned);

/* A block of pages that the program gets may be a sample; one that alloc_pages has taken for a heap that takes samples,
 * perhaps out of a list, or any other. */
static NOINLINE void heap_sample_pages(struct heap *heap, struct extent *extent, size_t size);
static NOINLINE void heap_maybe_sample(struct heap *heap, struct extent *extent, size_t size);

#endif
