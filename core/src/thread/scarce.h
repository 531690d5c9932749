/* SPDX-License-Identifier: MIT
 *
 * Small classes whose slabs are nearly full, or many: what the program frees into a full slab, which has no owner, stays in
 * the heap's list (keep.h). Here is when that ends.
 */
#ifndef MALLOW_SCARCE_H
#define MALLOW_SCARCE_H

#include "heap_state.h"

/* A slot of a full slab was freed, and the list had no room to keep it (keep.h). Where that is so again and again without
 * an allocation in between, the thread has begun to free many of the class: it keeps no more of them, and the list goes home
 * when the first slab is empty. Where it allocates again before that, what was kept is the first to be handed out. */
static NOINLINE void heap_note_refused(struct heap *heap, unsigned class);

#endif
