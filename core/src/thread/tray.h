/* SPDX-License-Identifier: MIT
 *
 * Trays: two for each arena, for medium slots and for blocks of pages that were freed by a thread which
 * does not allocate such. The next heap that lacks some takes all that is there, whatever their sizes,
 * and puts them into its magazines and stacks. So a buffer that one thread allocates and another one
 * frees comes back by one exchange, past the locks of depot and arena, and its slab is not looked at:
 * for that the slot never left.
 *
 *     who frees                           who lacks some; housekeeping
 *     item->next = top of the tray        chain = swap(tray, NULL)
 *     tray = item, by compare-and-swap
 *
 * Only whole chains are taken, so it does no harm if the same item is on top again (ABA). What lies in
 * a tray pins slabs, and waits for somebody to come: so there is little in it, and housekeeping empties
 * it. In a crowd, where few threads are awake, nothing is put there.
 */
#ifndef MALLOW_TRAY_H
#define MALLOW_TRAY_H

#include "heap_state.h"

/* So much in a tray is much. */
static size_t tray_most_bytes(void);

/* Held while pages of others are on their way to the arenas in the hands of a robber, or of who empties
 * trays: fork takes it, so that a child has these in one place. What another thread is just taking from a
 * tray for itself is lost in a child: one tray's content at most. */
static struct lock rob_lock;

/* Puts a slot that nobody holds into the tray of its slab's arena. True if there is much in it now: then
 * the caller takes it and finds another place. */
static bool tray_put_slot(struct extent *extent, struct slot *slot);

/* Takes all slots of a tray: a list of any medium classes. NULL if there are none. */
static struct slot *tray_take_slots(struct arena *arena);

/* The same of a block of pages that is EXTENT_CACHED, and of a chain of such blocks. */
static bool tray_put_pages(struct extent *extent);
static struct extent *tray_take_pages(struct arena *arena);

/* The slot that would come first. Another thread may take it at any time. */
static struct slot *tray_first_slot(struct arena *arena);

/* Gives what lies in all trays to depots and arenas. Any thread. */
static void trays_empty(void);

#endif
