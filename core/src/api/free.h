/* SPDX-License-Identifier: MIT
 *
 * What free and realloc share with the functions that take flags, and what they have counted.
 */
#ifndef MALLOW_FREE_H
#define MALLOW_FREE_H

#include "alloc.h"
#include "foreign.h"

/* The usable size of a block that the program holds; 0 if it is foreign. Ends the program if it is
 * memory of ours, but no block that the program holds. */
static size_t block_held_size(const char *call, const void *block);

/* The forms that know of slots and pages only. */
static void free_plain(void *block);
static size_t block_size(struct extent *extent, const void *block);

/* Resizes a block of ours that the program holds, if that needs no copy. NULL if it does. */
static void *block_try_resize(void *block, struct extent *extent, size_t size);

/* The same where the block is; for large ones. */
static bool block_try_resize_in_place(struct extent *extent, size_t size);

/* mw_free, and what becomes free goes to where it came from: no magazine or stack keeps it. */
static void free_uncached(void *block);

/* Ends the program if the block cannot be one of that size. A block that realloc shrank may have up
 * to twice what was asked for. Only in secure and debug builds: it is a second look-up. */
static void free_check_size(const void *block, size_t alignment, size_t size);

/* How often realloc was asked for 0 bytes. */
static size_t zero_reallocs(void);

#endif
