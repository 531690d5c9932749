/* SPDX-License-Identifier: MIT
 *
 * Time, and how much free memory may stay: arithmetic only.
 *
 * Pages that become free may stay for a given time. The time is cut into steps; `backlog` says how
 * many pages came in each of the last steps. For half of the time all of them may stay; then a smooth curve
 * (Perlin's 6x^5 - 15x^4 + 10x^3, as in jemalloc's decay) says how many. So a burst is given back in many small
 * portions, and all of it when the time is over.
 *
 * What goes back and is needed again before that costs a page fault each: a *refault*. While a good part of
 * what goes back comes again so, free pages stay whole for longer, and the curve falls in what is left of
 * the time. So memory that is not used any more is gone when the time is over, whatever was learnt.
 *
 *     1 |------------__              1 |-------------------_
 *       |               \              |                    \
 *     0 |_________________`--        0 |_____________________`-
 *        0   patience 0     1           0     patience 3     1
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

/* What the purge thread sleeps on, where nothing is free. */
static struct {
    _Atomic uint32_t count;  /* a futex: how often there was something new for it */
    _Atomic bool is_awaited; /* it may sleep until there is */
} free_news;

/* Pages, or slots that may empty a slab, became free where nobody but time takes care of them, or settings changed. */
static COLD void free_news_tell(void);

/* The same where nothing may be told. Who begins to wait looks once more, much later than a store takes to be seen. */
ALWAYS_INLINE void free_news_note(void)
{
    atomic_signal_fence(memory_order_seq_cst); /* the compiler's order: what is free, then this */
    if (unlikely(atomic_get(&free_news.is_awaited))) {
        free_news_tell();
    }
}

#define DECAY_STEPS 32u

/* The steps in which all pages stay, without patience; the greatest patience; and how many steps more each adds. */
#define WHOLE_STEPS (DECAY_STEPS / 2)
#define PATIENCE_MOST 3u
#define PATIENCE_STEPS ((DECAY_STEPS - WHOLE_STEPS) / (PATIENCE_MOST + 1))

struct decay {
    uint64_t step_ms_began;      /* when the current step began */
    size_t backlog[DECAY_STEPS]; /* pages that came in each step; the last is the current one */
    size_t pages_before;         /* the fewest pages since the last step, the end of which counts */
    size_t taken;                /* pages that were used since then */
    long total_ms;               /* the time as it was told last; 0: never, or all goes at once */
    _Atomic unsigned patience;   /* 0 .. PATIENCE_MOST; atomic for who only looks */
    uint64_t judged_ms;          /* when the patience changed last */
    size_t given_back;           /* pages that went back since then */
    size_t came_again; /* pages that were needed again before their time was over, since then */
};

/* Lets time pass until now_ms and returns how many of the `pages` free ones may stay; SIZE_MAX
 * within a step. total_ms < 0 keeps all, 0 keeps none. The caller purges down to that. */
static size_t decay_limit(struct decay *decay, uint64_t now_ms, long total_ms, size_t pages);

/* Nothing is free: what comes next begins its time then, not at the look before. */
static void decay_begin_anew(struct decay *decay);

/* Pages that were free are used; so many of them are left. What is free beyond that later is newly free. */
static void decay_note_left(struct decay *decay, size_t pages);

/* Pages went back. */
static void decay_note_given_back(struct decay *decay, size_t pages);

/* Pages are needed that went back, and had become free at `freed` (a clock_stamp). */
static void decay_note_refault(struct decay *decay, size_t pages, uint32_t freed);

#endif
