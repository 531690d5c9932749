/* SPDX-License-Identifier: MIT
 *
 * What a thread has taken out of a list of its heap and not yet put elsewhere would be lost to the child of a fork. So
 * fork waits until nobody moves blocks or slots in this way, and who is about to waits until the fork is over. Neither
 * waits for ever: a thread may have been stopped meanwhile, or hold a lock that fork needs; then what it has in
 * hand is lost to the child.
 */
#ifndef MALLOW_MOVING_H
#define MALLOW_MOVING_H

#include "heap_state.h"

/* Between these two the heap moves much. They nest. Owner; of the shared heap its lock says the same. */
static void moving_begin(struct heap *heap);
static void moving_end(struct heap *heap);

/* Before fork takes its locks, and when it lets them go in the parent. */
static void moving_stop(void);
static void moving_go_on(void);

/* In the child of any fork: who else forked or moved something is not there. */
static void moving_forget_others(void);

#endif
