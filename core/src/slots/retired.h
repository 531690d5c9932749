/* SPDX-License-Identifier: MIT
 *
 * Large blocks that the program has freed, in the secure build: their memory goes back to the kernel at
 * once, and their addresses wait without access until RETIRED_BLOCKS or RETIRED_BYTES of others have
 * come: who uses a stale pointer meets a page without access, and nobody else's data.
 *
 *   ACTIVE -> MOVING, in the quarantine's ring -> unmapped
 *
 * The kernel has to bring new memory for the next block, which costs more than all else here. So that
 * happens at a rate: there is an account of bytes, which free takes from and time adds to. While it is
 * empty, blocks go to the arena as in the other builds, and a stale pointer is not noticed.
 */
#ifndef MALLOW_RETIRED_H
#define MALLOW_RETIRED_H

#include "large.h"
#include "quarantine.h"

#define RETIRED_BYTES (256 * MiB)

/* A block of more than this does not wait: it is unmapped, which traps until somebody maps that place. */
#define RETIRED_MOST (64 * MiB)

/* What may be on the account, and what a millisecond adds. */
#define RETIRED_ACCOUNT (32 * MiB)
#define RETIRED_PER_MS (64 * KiB)

/* Takes a huge block that the program has freed. False if it goes to its arena as any other. */
static bool retired_put(struct extent *extent);

/* Unmaps all that waits, in builds that let blocks wait here: memory is short. */
static void retired_release_all(void);

#endif
