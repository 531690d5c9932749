/* SPDX-License-Identifier: MIT
 *
 * Blocks of the program's that are mappings of their own with guards around them (memory/fence.h): how
 * an arena makes them, changes their size, and lets go of them. They are huge extents of the arena like
 * others, but none is cut or joined.
 *
 *   new, or DIRTY of about the size -> ACTIVE -> DIRTY, or MOVING while it waits -> unmapped
 */
#ifndef MALLOW_FENCED_H
#define MALLOW_FENCED_H

#include "arena.h"

/* A huge extent with guards around it, for a block of the program's. NULL if out of memory. */
static struct extent *arena_alloc_fenced(struct arena *arena, size_t pages, size_t alignment);

/* Makes it longer or shorter in place, at the expense of its tail. False if that cannot be. */
static bool arena_try_resize_fenced(struct arena *arena, struct extent *extent, size_t pages);

/* A block that the program gives back takes back what its tail has. */
static void arena_regain_tail(struct extent *extent);

/* Takes a huge extent that the program gives back out of those in use: it is MOVING then. False if it
 * was not in use. The second drops its mapping; if the kernel has no room for that, it is among the
 * free ones; false if it is without access and has to stay so. */
static bool arena_take_out_fenced(struct extent *extent);
static bool arena_drop_fenced(struct extent *extent);

#endif
