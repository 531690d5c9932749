/* SPDX-License-Identifier: MIT
 *
 * Where a thread's blocks come from when the program has a say: from an arena that it names, and with
 * or without the heap's lists between. A thread with such a wish has HEAP_NONE in heap_self, so that its
 * calls come to the slow path, where they are sent on; all others pay nothing.
 */
#ifndef MALLOW_ROUTE_H
#define MALLOW_ROUTE_H

#include "thread.h"

/* The arena of a number; one that threads share is made if need be. NULL if there is none. The caller
 * holds the table lock. */
static struct arena *thread_arena_numbered(unsigned number);

/* The pool of direct blocks of the arena of a number; NULL if there is no such arena, or no memory. */
static struct direct *thread_direct_numbered(unsigned number);

/* Whether the arena of a number, one that threads share, has no pool, and gets none here: a hook asks, which may not make
 * it. What the hook needs its thread's heap has. */
static bool thread_must_lack_direct(unsigned number);

/* Lets the thread take its memory from an arena; from an explicit one it takes all blocks, directly.
 * False if there is no such arena, or the thread has no heap of its own. */
static bool thread_use_arena(unsigned number);
static unsigned thread_arena(void);

/* Whether blocks of the thread may lie in lists of its heap, and of what size at most; 0: as the heap
 * does. Those that may not are direct. False if the thread has no heap of its own. */
static bool thread_set_cached(bool is_cached);
static bool thread_set_cached_most(size_t size);

/* The pool that the calling thread takes a block of so many bytes from; NULL: its heap. */
static struct direct *thread_direct(struct heap *heap, size_t size);

/* Whether that is the heap for a thread that no wish of its own sends past the hit paths. */
ALWAYS_INLINE bool thread_uses_heap(struct heap *heap, size_t size)
{
    return heap_self != HEAP_NONE && heap->cached_most == 0 && size < wishes.oversize_least;
}

/* The arena of oversized blocks; NULL: there is none yet. */
static struct arena *thread_oversize_arena(void);

/* The pool of the explicit arena that serves the calling thread; NULL if none does. */
static struct direct *thread_bound_direct(void);

#endif
