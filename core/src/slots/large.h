/* SPDX-License-Identifier: MIT
 *
 * Large blocks: over SLOT_MAX, a number of whole pages with an extent of their own.
 */
#ifndef MALLOW_LARGE_H
#define MALLOW_LARGE_H

#include "../arena/arena.h"
#include "sizeclass.h"

/* Pages for a size; the size is at most PTRDIFF_MAX. */
ALWAYS_INLINE size_t large_pages(size_t size)
{
    return (size + os_page_size - 1) >> os_page_shift;
}

/* Makes a large block longer or shorter without moving its bytes one by one; a huge one may get
 * another address. False if it has to be copied. */
static bool large_try_resize(struct extent *extent, size_t size);

#endif
