/* SPDX-License-Identifier: MIT
 *
 * Accesses that trap at blocks of the secure build which are not guarded ones (guarded.h): in the guards of a block
 * of pages, in one that was freed and waits without access, in one of 0 bytes, and behind the slots of a slab.
 * Nothing is locked or changed: it may be that the thread holds any lock.
 */
#ifndef MALLOW_TRAPPED_H
#define MALLOW_TRAPPED_H

#include "retired.h"

/* Ends the program with a sentence if the address is one of these; returns if not. */
static COLD void trapped_look(const struct trap *trap);

#endif
