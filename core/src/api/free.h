/* SPDX-License-Identifier: MIT
 *
 * What free shares with realloc and with the functions that take flags.
 */
#ifndef MALLOW_FREE_H
#define MALLOW_FREE_H

#include "alloc.h"
#include "foreign.h"

/* The usable size of a block that the program holds; 0 if it is foreign. Ends the program if it is
 * memory of ours, but no block that the program holds. */
static size_t block_held_size(const char *call, const void *block);

/* Whether the program holds the block. False if it is foreign; ends the program like block_held_size. */
static bool block_is_held(const char *call, const void *block, struct extent *extent);

/* The forms that know of slots and pages only. */
static void free_plain(void *block);
static size_t block_size(struct extent *extent, const void *block);

/* With the fill options: fills a slot that the program gives back, where that is not done anyway. */
ALWAYS_INLINE void fill_freed(void *slot, size_t size)
{
    if (unlikely(thread_stays_slow()) && !MW_FILL && junk_fills_freed()) {
        memset(slot, FILL_FREE, size);
    }
}

/* mw_free, and what becomes free goes to where it came from: no magazine or stack keeps it. */
static void free_uncached(void *block);

/* Ends the program if the block cannot be one of that size. A block that realloc shrank may have up
 * to twice what was asked for. Only in secure and debug builds: it is a second look-up. False if the block is none,
 * or its address does not have the alignment. */
static bool free_check_size(const void *block, size_t alignment, size_t size);

#endif
