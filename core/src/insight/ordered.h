/* SPDX-License-Identifier: MIT
 *
 * Arrays in the order of the first word of each element, which is an address.
 */
#ifndef MALLOW_ORDERED_H
#define MALLOW_ORDERED_H

#include "../base/base.h"

/* A heap sort: it needs no memory. An element has at most 64 bytes. */
static void sort_by_first_word(void *array, size_t count, size_t size);

/* The last element that begins at or before an address; `count` if there is none. */
static size_t find_before(const void *array, size_t count, size_t size, uintptr_t address);

#endif
