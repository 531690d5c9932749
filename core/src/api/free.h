/* SPDX-License-Identifier: MIT
 *
 * What free and realloc share with the functions that take flags, and what they have counted.
 */
#ifndef MALLOW_FREE_H
#define MALLOW_FREE_H

#include "alloc.h"

/* The usable size of a block that the program holds; 0 if it is foreign. Ends the program if it is
 * memory of ours, but no block that the program holds. */
static size_t block_held_size(const char *call, void *block);

/* The forms that know of slots and pages only. */
static void free_plain(void *block);
static bool realloc_pages(struct extent *extent, size_t size);

/* The extent of any state that holds `address`; NULL if there is none near enough. */
static struct extent *extent_around(const void *address);

/* Ends the program: `block` is memory of ours, but no block that the program holds. */
_Noreturn static void bad_block(const char *call, const void *block, struct extent *extent);

/* How often realloc was asked for 0 bytes. */
static size_t zero_reallocs(void);

#endif
