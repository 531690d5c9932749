/* SPDX-License-Identifier: MIT
 *
 * What a heap takes from common slabs: its first blocks of a class where there are many threads,
 * and blocks in the holes of slabs of smaller classes.
 */
#ifndef MALLOW_HEAP_COMMON_H
#define MALLOW_HEAP_COMMON_H

#include "heap_state.h"

/* A block of a small class from common slabs, and more of them into the heap's list; NULL if there
 * is none. */
static struct slot *heap_take_common(struct heap *heap, unsigned class);

/* Up to `want` blocks of a class in the holes of slabs of smaller classes, as a list, and their
 * number in *count; NULL if there are none. */
static struct slot *heap_take_holes(struct heap *heap, unsigned class, uint32_t want,
                                    uint32_t *count);

#endif
