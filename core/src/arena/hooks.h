/* SPDX-License-Identifier: MIT
 *
 * The hooks of an arena: functions of the program that stand in for the kernel. Where an arena has
 * them, every mapping that it makes, cuts, joins, gives back or drops goes through them; where it has
 * none (NULL), straight to the kernel.
 *
 * A hook may allocate. So it is called with no lock but the arena's own direct lock, which is taken
 * before every other lock; split.c gives the arena's inner lock up meanwhile.
 *
 * Hooks return true for "no", as in jemalloc; the functions here return true for "done".
 */
#ifndef MALLOW_HOOKS_H
#define MALLOW_HOOKS_H

#ifndef MW_NO_JEMALLOC_NAMES
#define MW_NO_JEMALLOC_NAMES
#endif
#include "../../include/mallow/jemalloc.h"
#include "../os/os.h"

/* What a program reads as the hooks of an arena that has none, so that its own can pass calls on. The
 * caller holds the table lock. */
static extent_hooks_t *hooks_of_kernel(void);

/* The same without the lock; NULL if nobody has asked for them, which any arena with hooks did. */
static extent_hooks_t *hooks_of_kernel_known(void);

/* Whether some thread is in a hook now. */
static bool hooks_run(void);

/* New memory that can be used; NULL if there is none, or if what the hook gave is no such memory. */
static void *hooks_map(extent_hooks_t *hooks, size_t size, size_t alignment, unsigned arena,
                       bool *is_zero);

/* Drops a mapping. If the hook declines, the memory is still the arena's, unless it goes for ever. */
static bool hooks_unmap(extent_hooks_t *hooks, void *start, size_t size, bool is_committed,
                        bool for_ever, unsigned arena);

/* Whether an extent may be cut behind its first `first` bytes, and whether two neighbours may be
 * joined. */
static bool hooks_split(extent_hooks_t *hooks, void *start, size_t size, size_t first,
                        bool is_committed, unsigned arena);
static bool hooks_merge(extent_hooks_t *hooks, void *low, size_t low_size, void *high,
                        size_t high_size, bool is_committed, unsigned arena);

/* The memory behind an extent: taken away, and given again. What is in memory that hooks of before took away, and the
 * kernel gives again, is not known. */
static bool hooks_commit(extent_hooks_t *hooks, void *start, size_t size, unsigned arena);
static bool hooks_decommit(extent_hooks_t *hooks, void *start, size_t size, unsigned arena);
static bool hooks_purge_lazy(extent_hooks_t *hooks, void *start, size_t size, unsigned arena);
static bool hooks_purge_forced(extent_hooks_t *hooks, void *start, size_t size, unsigned arena);

#endif
