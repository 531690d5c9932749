/* SPDX-License-Identifier: MIT
 *
 * What guards around large blocks may cost, in the secure build. The kernel makes them, and has to bring
 * new memory for the block that comes after one that gave its memory back, which costs more than all
 * else here. So that happens at a rate: there is an account of bytes, from which a block pays and to
 * which time adds. The level of security says how much (strength.h).
 */
#ifndef MALLOW_RATE_H
#define MALLOW_RATE_H

#include "strength.h"

/* Whether the account has so many bytes. Who has spent nothing gets what he wants once. */
static bool rate_allows(size_t price);

/* The same, and takes them. */
static bool rate_pay(size_t price);

#endif
