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

/* A tray is one word: its first item in the low bits, how much is in it in the high 16. That is for who
 * puts, to know when it is much: it does no harm if many threads put at once and the number wraps. */
#define TRAY_ITEM_BITS 48

/* What slots are counted in: it divides the size of each medium slot. */
#define TRAY_UNIT 128u

/* atomic: anybody puts and takes */
struct tray {
    _Alignas(CACHE_LINE) _Atomic uint64_t slots;
    _Atomic uint64_t pages;
};

static struct tray trays[ARENAS_MAX] IN_SECTION(pools);

/* So much in a tray is much. */
static size_t tray_most_bytes(void);

/* Held while pages of others are on their way, from a stack to the arenas in the hands of a robber or out of
 * a tray; and while slots are on their way out of a tray. Fork takes both, so that a child has these in one
 * place. Of slots that a thread takes for itself, a magazine's batch may be in its hands, as out of a depot. */
static struct lock rob_lock;
static struct lock tray_lock;

/* Puts a slot that nobody holds into the tray of its slab's arena. True if there is much in it now: then
 * the caller takes it and finds another place. */
static bool tray_put_slot(struct extent *extent, struct slot *slot);

/* Takes all slots of a tray: a list of any medium classes. NULL if there are none. The caller holds tray_lock
 * until they lie somewhere else; without it who looks first whether the tray is empty pays nothing. */
static bool tray_has_slots(struct arena *arena);
static struct slot *tray_take_slots(struct arena *arena);

/* The same of a block of pages that is EXTENT_CACHED, and of a chain of such blocks, under rob_lock. */
static bool tray_put_pages(struct extent *extent);
static bool tray_has_pages(struct arena *arena);
static struct extent *tray_take_pages(struct arena *arena);

/* Bytes in the slots of a tray, at some moment. */
static size_t tray_slot_bytes(struct arena *arena);

/* The slot that would come first. Another thread may take it at any time. */
static struct slot *tray_first_slot(struct arena *arena);

/* Gives what lies in all trays and batches to depots and arenas. Any thread. */
static void trays_empty(void);

#endif
