/* SPDX-License-Identifier: MIT
 *
 * Giving free memory back to the kernel: when its time is over, when the process grows beside it,
 * or when somebody asks for it.
 */
#ifndef MALLOW_PURGE_H
#define MALLOW_PURGE_H

#include "split.h"

/* `pages` that are not resident are about to be used, because no dirty extent has their shape. If
 * more than `slack_pages` are dirty, the oldest of these are given back in exchange. */
static void arena_note_growth(struct arena *arena, size_t pages, size_t slack_pages);

/* Over how many ms free memory of the arena goes back; -1: never. */
static long arena_dirty_decay_ms(struct arena *arena);
static long arena_muzzy_decay_ms(struct arena *arena);

/* Whether free pages of the arena are, or may be, resident. */
static bool arena_has_free(struct arena *arena);

/* If there are none: the next ones that come stay for the whole time, however long this has lasted. */
static void arena_begin_decay_anew(struct arena *arena);

/* Resident free pages. */
static size_t arena_dirty_pages_locked(struct arena *arena);

/* Lets decay run. Returns how many dirty pages are left. */
static size_t arena_tick(struct arena *arena, uint64_t now_ms);

/* Gives free memory back to the kernel until at most `keep_pages` are left. Returns the pages
 * given back. */
static size_t arena_purge(struct arena *arena, size_t keep_pages);

/* Gives the address space of regions without any used page back to the kernel. */
static void arena_unmap_free_regions(struct arena *arena);

/* Before something of the region goes back. The kernel fills the gaps around what is in use to make huge pages of
 * them, in its own time: no more of that there. */
static void region_refuse_huge_pages(struct region *region);

#endif
