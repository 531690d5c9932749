/* SPDX-License-Identifier: MIT
 *
 * A bound on what the allocator holds: pages in use, in stacks, free and resident, and metadata. A
 * block counts whether its pages have been touched or not; address space that nobody uses does not.
 * Without a limit all this is one load where memory grows.
 *
 *   memory_limit       what would be more is refused
 *   memory_soft_limit  free memory goes back the sooner the less room is left below it
 */
#ifndef MALLOW_LIMIT_H
#define MALLOW_LIMIT_H

#include "../settings/options.h"
#include "purge.h"

/* Works out the limits from the options; shares are of the cgroup's limit as it is now. */
static void limit_look(void);

/* Whether an arena may take `pages` more from the kernel, after free memory has gone back to make
 * room for them. If so, the caller takes them and then calls limit_leave: nobody else grows
 * meanwhile. */
static bool limit_enter(size_t pages);
static void limit_leave(void);

/* What the process may hold, in bytes; SIZE_MAX: there is no limit. */
static size_t limit_bytes(void);

/* Whether a block of so many bytes can be had at all. */
static bool limit_allows(size_t size);

/* The CPUs that the cgroup allows now, where its files are read anyway, as a limit is a share of its limit, or where
 * somebody has time to look. 0: not known. */
static unsigned limit_cpus(void);

/* Looks now and then, in a thread that nobody waits for; not where the program has forbidden itself system calls. */
static void limit_look_at_cpus(uint64_t now_ms);

/* Gives free memory back as the room below the soft limit falls, and follows the cgroup until the program forbids
 * itself system calls. */
static void limit_tick(uint64_t now_ms);

/* Whether limit_tick has something to do now and then. */
static bool limit_is_watched(void);

/* Whether free memory of explicit arenas should go as well. */
static bool limit_is_short(void);

#endif
