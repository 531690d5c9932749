/* SPDX-License-Identifier: MIT
 *
 * The entry points that allocate, and what they share with realloc and operator new.
 */
#ifndef MALLOW_ALLOC_H
#define MALLOW_ALLOC_H

#include "../../include/mallow.h"
#include "../os/fault.h"
#include "../slots/harden.h"
#include "../thread/magazine.h"
#include "../thread/remote.h"
#include "../thread/stack.h"
#include "../thread/thread.h"
#include "../thread/tick.h"

/* Any size; NULL with errno ENOMEM if out of memory. The alignment is a power of two. */
static NOINLINE void *alloc_slow(size_t size);
static void *alloc_aligned(size_t alignment, size_t size);
static void *alloc_zeroed(size_t size);

/* What every block is aligned to, whatever its size. */
#define BLOCK_ALIGNMENT 16u

/* Whether there may ever be a large block of this kind. */
static bool alloc_is_possible(size_t alignment, size_t size);

/* A new block of pages may be a sample of a profile. */
static NOINLINE void alloc_maybe_sample(struct heap *heap, struct extent *extent, size_t size);

/* NULL with errno ENOMEM, or the end of the program with the option xmalloc. */
static COLD void *alloc_failed(void);

#endif
