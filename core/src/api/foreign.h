/* SPDX-License-Identifier: MIT
 *
 * Pointers that a program gives to free or realloc and that are none of its blocks: whose they are, and
 * what follows.
 */
#ifndef MALLOW_FOREIGN_H
#define MALLOW_FOREIGN_H

#include "alloc.h"

/* Ends the program unless the option `foreign` says otherwise. Returns the next allocator's function of that
 * name, which has to be free or realloc, or NULL if the call is to be ignored. */
static void *foreign_function(const char *call, const void *block);

/* Looks the next allocator's functions up now: they are about to lead to this library itself. */
UNUSED static void foreign_remember(void);

/* The extent of any state that holds `address`; NULL if there is none near enough. */
static struct extent *extent_around(const void *address);

/* Ends the program: `block` is memory of ours, but no block that the program holds. */
_Noreturn static void bad_block(const char *call, const void *block, struct extent *extent);

#endif
