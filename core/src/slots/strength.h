/* SPDX-License-Identifier: MIT
 *
 * What the level of the option `security` stands for, in the secure build: docs/hardening.md has a
 * table of it. Each level has all of those below it. What costs next to nothing has no level: the bit
 * per slot, canaries, encoded links, guards around metadata.
 *
 * In the debug build the widths are those of whole slots; of all else only the account counts there, and in the fast
 * build.
 */
#ifndef MALLOW_STRENGTH_H
#define MALLOW_STRENGTH_H

#include "../settings/options.h"
#include "sizeclass.h"

/* Of a slot that is too large to be filled, or looked at, as a whole so many bytes at each end are. */
#define FILL_EDGE ((size_t)256)

#define NO_LIMIT SIZE_MAX

struct strength {
    size_t fill_whole;  /* the largest slot that is filled as a whole when the program frees it,
                             and looked at as a whole in the quarantine at the end */
    size_t look_whole;  /* the largest one that is looked at as a whole before it is used again; not
                             more than fill_whole */
    size_t delay_bytes; /* most that waits in the quarantine of a heap; 0: nothing waits */
    size_t
        rate_account;   /* what large blocks with guards may cost at once, see rate.h; NO_LIMIT: all
                             have guards */
    size_t rate_per_ms; /* and what each millisecond adds */
    /* Pages of fresh slots of which any comes next, see order.h; of 1 the slots come in any order. */
    uint32_t order_runs;
    bool checks_mixes; /* where the option check_mixes says nothing */

    /* Of blocks of pages that have no guards. */
    bool fills_large;     /* whether zeros are written over them when the program frees them */
    uint32_t held_blocks; /* so many of an arena wait, see held.h; 0: none does */
    size_t fence_min;     /* a block of so many bytes or more has guards, if it can pay for them */
};

static struct strength strength SEALED; /* const after start; there are no blocks before */
static void strength_load(void);

/* Whether only the ends of a slot are filled, or looked at, where those of up to `whole` bytes are as a
 * whole. */
ALWAYS_INLINE bool strength_spares_middle(size_t size, size_t whole)
{
    return size > whole && size > 2 * FILL_EDGE;
}

#endif
