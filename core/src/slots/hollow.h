/* SPDX-License-Identifier: MIT
 *
 * Hollow blocks, in the secure build: what malloc(0) returns has no byte that may be read or written.
 * They are addresses in a range without access, BLOCK_ALIGNMENT apart, at random; a bit for each says
 * whether the program holds it. The range is one extent, whose owner is OWNER_HOLLOW: so free and
 * realloc come to their slow side by the comparison that they make anyway. It is made with the first
 * such block, and takes no memory. Where all addresses that are looked at are held, or the kernel has no
 * range, a block of no bytes is a slot like others.
 */
#ifndef MALLOW_HOLLOW_H
#define MALLOW_HOLLOW_H

#include "../os/fault.h"
#include "../memory/extent.h"

#define HOLLOW_STRIDE 16u

/* NULL if there is none. The process has begun. */
static NOINLINE void *hollow_take(void);

/* The program gives one back. Ends it if it does not hold it. */
static NOINLINE void hollow_free(const void *block);

/* Whether a block begins there that the program holds. The address is in the range. */
static bool hollow_holds(const void *block);

/* True; ends the program if it does not hold the block. */
static NOINLINE bool hollow_is_held(const char *call, const void *block);

ALWAYS_INLINE bool extent_is_hollow(struct extent *extent)
{
    return MW_CANARY && atomic_get(&extent->owner) == OWNER_HOLLOW;
}

#endif
