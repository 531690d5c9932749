/* SPDX-License-Identifier: MIT
 *
 * What realloc shares with the functions that take flags, and what it has counted.
 */
#ifndef MALLOW_REALLOC_H
#define MALLOW_REALLOC_H

#include "free.h"

/* Resizes a block of ours that the program holds, if that needs no copy. NULL if it does. */
static void *block_try_resize(void *block, struct extent *extent, size_t size);

/* The same where the block is; for large ones. */
static bool block_try_resize_in_place(struct extent *extent, size_t size);

/* How often realloc was asked for 0 bytes. */
static size_t zero_reallocs(void);

#endif
