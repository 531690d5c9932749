/* SPDX-License-Identifier: MIT
 *
 * What guards may cost, in the secure build. The kernel makes them, and where they are around a large
 * block it has to bring new memory for the block that comes after one that gave its memory back, which
 * costs more than all else here. So that happens at a rate: there is an account of bytes, from which a
 * guard is paid and to which time adds. The level of security says how much (strength.h). Guards behind
 * slabs have an account of their own, and so have blocks without guards that wait without access (held.h), slots that are
 * filled as a whole though they are large (thread/delay.h), and what a block of several MiB pays when it is freed, each as
 * large as the other.
 *
 * In the other builds there is one account, of what huge blocks that were written to here and there give back
 * (large_leave_scattered).
 */
#ifndef MALLOW_RATE_H
#define MALLOW_RATE_H

#include "strength.h"

enum rate_account {
    RATE_OF_BLOCKS,
    RATE_OF_FREES,
    RATE_OF_SLABS,
    RATE_OF_HELD,
    RATE_OF_MIDDLES,
    RATE_OF_SCATTERED,
    RATE_ACCOUNTS
};

/* Whether an account has so many bytes. Who has spent nothing gets what he wants once. */
static bool rate_allows(enum rate_account account, size_t price);

/* The same, and takes them. */
static bool rate_pay(enum rate_account account, size_t price);

#endif
