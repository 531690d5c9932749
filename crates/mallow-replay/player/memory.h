/* SPDX-License-Identifier: MIT */
/*
 * What the process has resident, without what the player itself needs. All tables of the player are
 * shared memory, made resident before the first operation, which the kernel counts apart: so the
 * difference is exact.
 */
#ifndef MALLOW_PLAYER_MEMORY_H
#define MALLOW_PLAYER_MEMORY_H

#include <stddef.h>
#include <stdint.h>

struct memory_sample {
    uint64_t time_ns; /* recorded */
    uint64_t resident;
    uint64_t anonymous; /* of it, what belongs to no file: the heap and the stacks */
};

/* A zeroed table of the player; ends the process where there is no memory. */
void *memory_table(size_t size);

/* After the last memory_table(): from now on the tables count for nothing. */
void memory_start(void);

/* Fills in what is resident now. */
void memory_take(struct memory_sample *sample);
uint64_t memory_resident(void);

/*
 * The most that was resident. The kernel's own mark is up to some 100 KiB late, so it is completed by
 * readings whenever the program has noticeably more live bytes than ever before.
 */
uint64_t memory_peak(void);
void memory_note_peak(uint64_t live_bytes);
uint64_t memory_tables(void);

/* Ends the process with a sentence on standard error. */
_Noreturn void player_fail(const char *what, const char *detail);

#endif
