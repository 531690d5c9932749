/* SPDX-License-Identifier: MIT
 *
 * Explicit arenas: made by the program, with hooks of its own or without, emptied and destroyed by it.
 *
 *   All extents of an explicit arena lie in its regions, large ones too: a walk finds every block. None
 *   of them ever gets into a heap, a stack or a pool that others share (slots/direct.h), so what is
 *   taken back at once is all there is.
 *
 *   Who changes an extent holds the direct lock of the arena, and takes the arena's own lock for each
 *   step; who only looks takes the arena's own. Hooks run under the direct lock alone.
 *
 * The structure of a destroyed arena stays and is empty: whoever walks over all arenas may come by at
 * any time. The next arena that is made uses it again, under the same number.
 */
#ifndef MALLOW_EXPLICIT_H
#define MALLOW_EXPLICIT_H

#include "arena.h"

/* Which arenas are made, and who is bound to them: taken before every other lock. */
static struct lock table_lock;

/* The arena of a number, if it exists: one that threads share, or an explicit one in use. */
static struct arena *arena_numbered(unsigned number);

/* The text of an arena's name; `name` has ARENA_NAME_SIZE bytes. */
static void arena_get_name(struct arena *arena, char *name);

/* How many numbers of arenas there are, those that are destroyed included: at least `shared`, as many
 * arenas as threads may share. */
static unsigned arena_numbers(unsigned shared);

/* A structure for a new arena, empty and not yet in use; the first explicit arena has the number
 * `shared`. NULL if there is no memory, or no number left. The caller holds the table lock. */
static struct arena *explicit_new(unsigned shared, bool has_hooks);

/* An active extent; NULL if out of memory. The caller holds the direct lock here and below. */
static struct extent *explicit_alloc(struct arena *arena, size_t pages, size_t alignment);
static void explicit_free(struct arena *arena, struct extent *extent);

/* Makes an active extent larger or smaller where it is. */
static bool explicit_try_resize(struct arena *arena, struct extent *extent, size_t pages);

/* Gives free memory back, all of it or what the time of is over, and regions without a block to
 * hooks that take them. */
static size_t explicit_purge(struct arena *arena);
static size_t explicit_tick(struct arena *arena, uint64_t now_ms);

/* All active extents, linked by bin_next. */
static struct extent *explicit_active(struct arena *arena);

/* Gives back everything, for ever; no extent is active any more. */
static void explicit_drop_all(struct arena *arena);

#endif
