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

/* How often realloc was asked for 0 bytes. */
static size_t zero_reallocs(void);

#endif
