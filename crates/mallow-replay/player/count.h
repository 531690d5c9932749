/* SPDX-License-Identifier: MIT */
/*
 * Counts the calls into the kernel that manage memory. A seccomp filter turns them into SIGSYS, and
 * the handler counts and carries them out. That needs no rights, but is slow and takes some of the
 * stack, so it is done in a run of its own.
 */
#ifndef MALLOW_PLAYER_COUNT_H
#define MALLOW_PLAYER_COUNT_H

#include <stdbool.h>
#include <stdint.h>

/* False where the kernel or this processor cannot do it. */
bool count_start(void);

/* Since count_start(). */
uint64_t count_calls(void);

#endif
