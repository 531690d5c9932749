/* SPDX-License-Identifier: MIT
 *
 * What a report says of one block of which it is known who allocated and freed it: of tracked blocks
 * (track.h) and of guarded ones (guarded.h). And the bytes around such a block that nobody may write.
 */
#ifndef MALLOW_BLAME_H
#define MALLOW_BLAME_H

#include "../os/fault.h"
#include "../os/trap.h"
#include "slot.h"

#define FILL_ZONE 0xfb

/* Where the slot or the pages of a block begin, where they end for the program. What lies between them and
 * the block is FILL_ZONE. */
struct zones {
    unsigned char *start;
    unsigned char *block;
    unsigned char *block_end;
    unsigned char *end;
};

static void zones_fill(const struct zones *zones);
static bool zones_are_whole(const struct zones *zones);

/* Text about who allocated a block and who freed it, out of the fault's stacks. */
#define BLAME_WHO 64u
static void blame_who(const struct fault *fault, char *who);

/* Whether an access was to the bytes of a block that the program holds: it has taken the access away itself, and
 * handles the trap. */
static bool access_is_inside(const struct fault *fault, uintptr_t address);

/* Each of these ends the program, with what the caller knows of the block in `fault`, and `who`. */

/* A zone was written to. Returns if it was not. */
static COLD void blame_zones(struct fault *fault, const char *who, const struct zones *zones);

/* An access trapped, in front of the block, in it, or behind it. */
_Noreturn static COLD void blame_access(struct fault *fault, const char *who,
                                        const struct trap *trap);

/* fault->pointer was given to fault->call, which wants a block that the program holds. Returns if it is
 * one. */
static COLD void blame_pointer(struct fault *fault, const char *who);

#endif
