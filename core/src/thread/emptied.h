/* SPDX-License-Identifier: MIT
 *
 * Slabs that are in the lists of a thread, and whose last slots others freed. The thread may sleep, so
 * whoever keeps house looks for them and gives their memory to the kernel. They keep their addresses until the
 * thread looks at them, which then finds them as new.
 */
#ifndef MALLOW_EMPTIED_H
#define MALLOW_EMPTIED_H

#include "heap_state.h"

/* A slot came into the inbox of a slab that has an owner: there may be such slabs from now on. Any thread. */
static void emptied_note(struct extent *extent);

static bool emptied_may_be_there(void);

/* Looks at some slabs, if it is time, for those of heaps whose threads rest; who keeps house. */
static void emptied_tick(uint64_t now_ms, uint64_t age_ms);

/* Empties all there are, whether their threads rest or not. Returns how many bytes were given back. */
static size_t emptied_purge_all(void);

#endif
