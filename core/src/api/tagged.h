/* SPDX-License-Identifier: MIT
 *
 * Blocks with memory tags (os/tags.h): what the outermost functions do with a block that they give or take. In
 * other builds, and where tags are off, a block is its pointer.
 *
 * Tagged are the blocks of slabs, but for direct ones: an arena that is reset drops those while the program has
 * them. Blocks of pages, guarded ones and those of no bytes have the tag 0; pages without access are their
 * protection.
 */
#ifndef MALLOW_TAGGED_H
#define MALLOW_TAGGED_H

#include "../os/tags.h"
#include "free.h"

/* The pointer for the program to a block that is finished otherwise. */
static void *tagged_give(void *block);

/* The block of a pointer that the program wants to know something of. Ends the program if the block has
 * another tag: it is not the one that the pointer was made for. What is no block stays as it is, for who says so. */
UNUSED static void *tagged_look(const char *call, const void *pointer);

/* The same, and its memory has no tag any more. */
static void *tagged_take(const char *call, void *pointer);

/* The pointer to `moved`, which a call made of `block`, that was taken by `pointer`: the block keeps its
 * tag if it has stayed. It has also stayed if there is no other and `stays_else`. */
UNUSED static void *tagged_give_resized(const void *pointer, void *block, void *moved,
                                        bool stays_else);

#endif
