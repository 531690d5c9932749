/* SPDX-License-Identifier: MIT
 *
 * Tracked blocks, in the debug build: all but those of arenas that the program made, or that it asked
 * for by an arena's number, which are as in the other builds. A block lies in its slot, or in its pages,
 * between red zones:
 *
 *     slot   | front, 16 bytes or the alignment | block | behind, to the end of the slot |
 *     pages  | guard pages | to the block | block | less than its alignment | guard pages |
 *
 * The program gets the middle, exactly as long as it asked for. On pages
 * lie large blocks, and of the others the first ones of each call stack and some later ones: there also
 * a read beyond the block or after its end is found, by the CPU. What is known of a block lies in
 * a table beside its extent, by the number of the slot that it begins in, behind the red zone, where
 * no overflow comes: size, state, and the calls that allocated and freed it. That stays when the block
 * is freed, until another one is allocated in its place.
 *
 *   NONE   no block has ever begun here
 *   LIVE   the program holds it: both red zones are whole
 *   FREED  in the quarantine, or free: a slot is FILL_FREE from end to end but for a link in its
 *          first word; pages are without access while they are in the quarantine
 */
#ifndef MALLOW_TRACK_H
#define MALLOW_TRACK_H

#include "../os/fault.h"
#include "../profile/calls.h"
#include "blame.h"
#include "common.h"
#include "harden.h"

enum track_state { TRACK_NONE, TRACK_LIVE, TRACK_FREED };

/* What is known of a block. The word holds what changes together:
 *
 *     | 63 .. 16 size | 11 a sample of a profile | 10 by an aligned form of new |
 *     | 9 .. 4 log2 of the alignment | 3 2 made | 1 0 state | */
struct track {
    _Atomic uint64_t word;
    _Atomic uintptr_t inverted; /* where it begins, ~: tells apart who was here before, and is no
                                   pointer for who looks for pointers */
    _Atomic uint32_t allocated_stack, allocated_thread;
    union {
        struct { /* FREED */
            _Atomic uint32_t freed_stack, freed_thread;
        };
        struct { /* LIVE, and a sample: struct sample */
            _Atomic uint32_t sample_stack, sample_epoch;
        };
    };
};

#define TRACK_SAMPLED ((uint64_t)1 << 11)
static_assert(sizeof(struct track) == 32, "what the debug build notes of each block");

struct track_table {
    struct track_table *next; /* const: all tables ever made */
    uint32_t capacity;        /* const */
    uint8_t guard;            /* owner of the block: enum os_guard, for an extent of one block */
    uint8_t rounds;           /* lock: track; how often a chosen block was in the quarantine */
    bool is_chosen; /* const while it is held: among the few with guards that others do not have */
    struct track tracks[];
};

ALWAYS_INLINE enum track_state track_state(uint64_t word)
{
    return (enum track_state)(word & 3);
}

ALWAYS_INLINE enum made track_made(uint64_t word)
{
    return (enum made)(word >> 2 & 3);
}

ALWAYS_INLINE bool track_is_aligned_form(uint64_t word)
{
    return (word >> 10 & 1) != 0;
}

ALWAYS_INLINE size_t track_alignment(uint64_t word)
{
    return (size_t)1 << (word >> 4 & 63);
}

ALWAYS_INLINE size_t track_size(uint64_t word)
{
    return word >> 16;
}

/* The space between where a slot begins and where the block does. */
ALWAYS_INLINE size_t track_front(uint64_t word)
{
    return size_max(track_alignment(word), 16);
}

ALWAYS_INLINE uint64_t track_word(size_t size, size_t alignment, enum made made)
{
    return (uint64_t)size << 16 | (uint64_t)floor_log2(alignment) << 4 | (uint64_t)made << 2 |
           TRACK_LIVE;
}

ALWAYS_INLINE uintptr_t track_block(struct track *track)
{
    return ~atomic_get(&track->inverted);
}

/* Where the slot of a block begins. */
ALWAYS_INLINE uintptr_t track_slot_start(struct track *track)
{
    return track_block(track) - track_front(atomic_get(&track->word));
}

/* --- Tables ----------------------------------------------------------------------------------- */

static struct lock track_tables_lock;

/* The table of an extent; NULL if none of its blocks was ever tracked. */
static struct track_table *track_table(struct extent *extent);

/* Where what is known of a block is written that begins at `block`. NULL if there is no memory for
 * the table. */
static struct track *track_make(struct extent *extent, const void *block);

/* What is known of the block that begins at an address, live or not; NULL if none ever did. */
static struct track *track_find(const void *block);

/* Asks the CPU for it, some time before track_find. */
static void track_prefetch(const void *block);

/* What is known of the block that an address lies in or beside, as far as its slot or its pages
 * reach; NULL if there is none. */
static struct track *track_find_around(struct extent *extent, const void *address);

/* Forgets the block that was known there. */
static void track_forget(struct extent *extent, const void *address);

/* Calls a function for every block that is known; false as soon as it says so. */
static bool track_visit(bool (*visit)(struct track *track, void *context), void *context);

/* --- Red zones -------------------------------------------------------------------------------- */

static struct zones track_zones(struct extent *extent, struct track *track);

/* Ends the program if they are not whole. */
static void track_check_zones(struct track *track, const struct zones *zones, const char *call,
                              uintptr_t caller);

/* --- Faults ----------------------------------------------------------------------------------- */

/* Fills in what is known of a block. `who` gets ", allocated by ..., freed by ...". */
static void track_describe(struct track *track, struct fault *fault, char *who);

/* Ends the program: `pointer` was given to a call that wants a live block. Returns if it is memory
 * that was never ours. */
static COLD void track_bad_pointer(const char *call, const void *pointer, struct extent *around,
                                   uintptr_t caller);

/* --- Threads ------------------------------------------------------------------------------------ */

/* The number of the calling thread, as the kernel gives it. */
static uint32_t track_thread_number(void);

/* Notes that the calling thread allocated the block, or made it longer or shorter, with these calls. */
static void track_set_allocated(struct track *track, uint32_t stack);
static void track_set_size(struct track *track, size_t size);
static void track_forget_thread(void);

#endif
