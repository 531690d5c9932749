/* SPDX-License-Identifier: MIT
 *
 * Large blocks that the program has freed, in the secure build: their memory goes back to the kernel at
 * once, and their addresses wait without access until RETIRED_BLOCKS or RETIRED_BYTES of others have
 * come: who uses a stale pointer meets a page without access, and nobody else's data.
 *
 *   ACTIVE -> MOVING, in the quarantine's ring -> unmapped
 *
 * That happens at a rate (rate.h). A block of up to LARGE_MAX pays when it is allocated, and for its pages beyond
 * FENCE_PRICE_OF_PAGES_MOST when it is freed; one that cannot pay at first comes from the stacks, and goes there,
 * as in the other builds. A larger one is a mapping of its own anyway, and pays when it is freed. One that
 * cannot pay then goes to its arena with its guards and its memory, and a stale pointer to it is not noticed.
 */
#ifndef MALLOW_RETIRED_H
#define MALLOW_RETIRED_H

#include "large.h"
#include "quarantine.h"

#define RETIRED_BYTES (256 * MiB)

/* A block of more than this does not wait: it is unmapped, which traps until somebody maps that place. */
#define RETIRED_MOST (64 * MiB)

/* Takes a huge block that the program has freed. False if it goes to its arena as any other. */
static bool retired_put(struct extent *extent);

/* Unmaps all that waits, in builds that let blocks wait here: memory is short. */
static void retired_release_all(void);

#endif
