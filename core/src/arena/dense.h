/* SPDX-License-Identifier: MIT
 *
 * Whether a new region is to consist of huge pages. Where the arena is large and nearly all resident, the program
 * will write to nearly all of a new region too, and huge pages cost no memory: the kernel is asked for them. Of a
 * small arena one huge page may be more than all that is in use, so there the kernel is to make none, even on
 * systems where it does so for whoever does not object.
 */
#ifndef MALLOW_DENSE_H
#define MALLOW_DENSE_H

#include "place.h"

/* Asks for huge pages in a region that was mapped, if the arena is dense, or for none, if it is small. Returns in
 * how many bytes they were asked for. Without the lock. */
static size_t dense_choose_huge_pages(struct arena *arena, char *start, size_t size,
                                      enum huge_pages *chosen);

#endif
