/* SPDX-License-Identifier: MIT
 *
 * Blocks that the program has freed and that nobody gets yet, in the debug build, and large ones in
 * the secure build (retired.h): the oldest leave
 * first, when the option `quarantine` is exceeded. Blocks in it keep their slots or pages, so that
 * whoever uses a stale pointer meets nobody else's data.
 */
#ifndef MALLOW_QUARANTINE_H
#define MALLOW_QUARANTINE_H

#include "track.h"

/* Blocks at most; in the secure build large ones alone, see retired.h. */
#define QUARANTINE_BLOCKS (MW_FENCES ? (size_t)512 : (size_t)1 << 18)

static struct quarantine {
    struct lock lock;
    uint64_t *ring; /* const once made: block in the low 48 bits, weight in units of 16 bytes */
    size_t places;  /* lock: track; of the ring that are used, a power of two */
    size_t first;   /* lock: track; where the oldest is */
    size_t count;   /* lock: track */
    size_t bytes;   /* lock: track; the sum of the weights */
} quarantine = {.lock = LOCK_INITIALIZER(MW_FENCES ? LOCK_RETIRED : LOCK_TRACK)};

/* The block of an entry of the ring. */
static uintptr_t entry_block(uint64_t entry);

/* Puts a block in. False if there is no memory for the ring, or no place in it. */
static bool quarantine_put_locked(uintptr_t block, size_t bytes);

/* Takes the oldest block out if there is more than so many bytes, or no room for another block; 0
 * if nothing has to leave. */
static uintptr_t quarantine_take_locked(size_t limit);

/* Ends the program if a block in it was written to. */
static void quarantine_check_locked(void);

#endif
