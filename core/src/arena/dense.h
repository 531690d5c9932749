/* SPDX-License-Identifier: MIT
 *
 * Whether a new region is to consist of huge pages: where the arena is large and nearly all resident, the program
 * will write to nearly all of a new region too, and huge pages cost no memory.
 */
#ifndef MALLOW_DENSE_H
#define MALLOW_DENSE_H

#include "place.h"

/* Asks for huge pages in a region that was mapped, if the arena is dense. Returns in how many bytes. Without the
 * lock. */
static size_t dense_ask_for_huge_pages(struct arena *arena, char *start, size_t size);

#endif
