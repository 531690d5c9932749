/* SPDX-License-Identifier: MIT */
#include "scarce.h"

/* Frees in a row that find no room in a list before the thread is taken to free many. */
#define REFUSED_MOST 8u

static NOINLINE void heap_note_refused(struct heap *heap, unsigned class)
{
    struct bin *bin = &heap->bins[class];
    uint8_t rooms = (uint8_t)heap->rooms[class];
    check(bin->is_scarce && !class_is_medium(class));
    bin->refused = bin->refused_rooms == rooms ? (uint8_t)(bin->refused + 1) : 0;
    bin->refused_rooms = rooms;
    if (bin->refused == REFUSED_MOST) {
        bin->refused = 0;
        bin->is_scarce = false;
        bin->is_draining = true;
        bin->has_kept = true;
    }
}
