/* SPDX-License-Identifier: MIT
 *
 * Orphans: in the child of a fork, the heaps of threads that exist in the parent only. Their
 * threads were at any instruction when the child was made, without a lock in their hands (the
 * thread that forked had them all). What they left free is handed on here, and the heaps are used
 * again.
 *
 * What a child sees of such a thread is what the thread had stored up to some moment, in the order
 * of its program: the kernel stops its stores once and for all when it takes the pages from it. So
 * who changes something that only its own thread may change keeps the order in which a cut at any
 * place leaves slots that nobody has, and never a slot that two have (order_stores, slot_push).
 * Here the slots are counted anew: what is reached from a list, once, and is a slot that may be
 * free. All others stay in use for ever, as the blocks do that such a thread held.
 */
#ifndef MALLOW_ORPHAN_H
#define MALLOW_ORPHAN_H

#include "heap.h"

/* Empties the orphans of a list, linked by `next_idle`, so that they can serve other threads. Each
 * has its mark, is_orphan. One thread at a time. */
static void orphans_empty(struct heap *orphans);

#endif
