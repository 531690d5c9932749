/* SPDX-License-Identifier: MIT
 *
 * All heaps, for who looks at each.
 */
#ifndef MALLOW_HEAPS_H
#define MALLOW_HEAPS_H

#include "thread.h"

/* The first heap and the next one: all that threads have or had, then the shared one. */
static struct heap *heap_first(void);
static struct heap *heap_after(struct heap *heap);

#endif
