/* SPDX-License-Identifier: MIT
 *
 * Time, and how much free memory may stay: arithmetic only.
 *
 * Pages that become free may stay for a given time. The time is cut into steps; `backlog` says how
 * many pages came in each of the last steps, and a smooth curve (Perlin's 6x^5 - 15x^4 + 10x^3, as
 * in jemalloc's decay) how many of them may still be there. So a burst is given back in many small
 * portions, and all of it when the time is over.
 */
#ifndef MALLOW_DECAY_H
#define MALLOW_DECAY_H

#include "../base/atomic.h"
#include "../base/check.h"

/* The one clock, in milliseconds: what it showed when some thread looked last. Costs a load. */
static uint64_t clock_ms(void);

/* The same in 32 bits, for descriptors: it wraps after 49 days, so stamps are compared by
 * difference. */
static uint32_t clock_stamp(void);

/* Looks at the system's clock, for all threads. */
static uint64_t clock_look(void);

#define DECAY_STEPS 32u

struct decay {
    uint64_t step_ms_began;      /* when the current step began */
    size_t backlog[DECAY_STEPS]; /* pages that came in each step; the last is the current one */
    size_t pages_before;         /* pages that stayed at the end of the last step */
};

/* Lets time pass until now_ms and returns how many of the `pages` free ones may stay; SIZE_MAX
 * within a step. total_ms < 0 keeps all, 0 keeps none. The caller purges down to that. */
static size_t decay_limit(struct decay *decay, uint64_t now_ms, long total_ms, size_t pages);

#endif
