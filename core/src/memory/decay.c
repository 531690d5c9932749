/* SPDX-License-Identifier: MIT */
#include "decay.h"

#include "../os/os.h"

#include <string.h>

static _Atomic uint64_t clock_last_ms;

static uint64_t clock_ms(void)
{
    return atomic_get(&clock_last_ms);
}

static uint32_t clock_stamp(void)
{
    return (uint32_t)clock_ms();
}

static uint64_t clock_look(void)
{
    uint64_t now_ms = os_now_ms();
    /* All threads look far more often than it changes, and each store takes the line from those who read it. */
    if (atomic_get(&clock_last_ms) != now_ms) {
        atomic_set(&clock_last_ms, now_ms);
    }
    return now_ms;
}

static COLD void free_news_tell(void)
{
    atomic_set(&free_news.is_awaited, false);
    atomic_fetch_add_explicit(&free_news.count, 1, memory_order_release);
    os_wake_one(&free_news.count); /* pairs with purge_thread_run */
}

/* The curve at step / DECAY_STEPS, as a fraction of 2^16. */
static uint64_t decay_weight(uint64_t step)
{
    check(step < DECAY_STEPS);
    static_assert(DECAY_STEPS == 32, "the shift below is 5 * 5 - 16 bits");
    return (step * step * step * (6 * step * step + 10240 - 480 * step)) >> 9;
}

/* How many of the pages may stay that came in the step `i` of the backlog: all of them for some steps, and in
 * the others what the curve says of the time that is left then. */
static uint64_t decay_part(const struct decay *decay, uint64_t i)
{
    uint64_t whole = WHOLE_STEPS + atomic_get(&decay->patience) * PATIENCE_STEPS;
    uint64_t age = DECAY_STEPS - 1 - i;
    if (age < whole) {
        return (uint64_t)1 << 16;
    }
    return decay_weight(DECAY_STEPS - 1 - (age - whole) * DECAY_STEPS / (DECAY_STEPS - whole));
}

static size_t decay_sum(const struct decay *decay)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < DECAY_STEPS; i++) {
        sum += decay->backlog[i] * decay_part(decay, i);
    }
    return (size_t)(sum >> 16);
}

/* --- Refaults --------------------------------------------------------------------------------- */

/* Patience grows when at least so many pages came again, and of so many that went back at least one; it
 * shrinks after so many times of decay without that. */
#define REFAULTS_LEAST 64u
#define REFAULTS_SHARE 8u
#define CALM_TIMES 4u

static void decay_note_left(struct decay *decay, size_t pages)
{
    if (pages < decay->pages_before) {
        decay->taken += decay->pages_before - pages;
        decay->pages_before = pages;
    }
}

/* Pages that were used are none of the backlog any more, of which they were the youngest: what is freed last is
 * used first. Else pages that are used and freed in each step would count in all steps, and as many old ones stay. */
static void decay_forget_taken(struct decay *decay)
{
    for (size_t i = DECAY_STEPS; i-- > 0 && decay->taken > 0;) {
        uint64_t part = decay_part(decay, i);
        size_t there = (size_t)(decay->backlog[i] * part >> 16);
        size_t taken = there < decay->taken ? there : decay->taken;
        if (taken > 0) {
            decay->backlog[i] -= (size_t)(((uint64_t)taken << 16) / part);
            decay->taken -= taken;
        }
    }
    decay->taken = 0;
}

static void decay_note_given_back(struct decay *decay, size_t pages)
{
    decay->given_back += pages;
}

static void decay_note_refault(struct decay *decay, size_t pages, uint32_t freed)
{
    if ((int64_t)(clock_stamp() - freed) < (int64_t)decay->total_ms) {
        decay->came_again += pages;
    }
}

static void decay_judge(struct decay *decay, uint64_t now_ms)
{
    unsigned patience = atomic_get(&decay->patience);
    check(patience <= PATIENCE_MOST && decay->total_ms > 0);
    bool is_costly = decay->came_again >= REFAULTS_LEAST &&
                     decay->came_again >= decay->given_back / REFAULTS_SHARE;
    if (!is_costly && now_ms - decay->judged_ms < CALM_TIMES * (uint64_t)decay->total_ms) {
        return;
    }
    if (is_costly) {
        patience += patience < PATIENCE_MOST;
    } else {
        patience -= patience > 0;
    }
    atomic_set(&decay->patience, patience);
    decay->judged_ms = now_ms;
    decay->given_back = 0;
    decay->came_again = 0;
}

/* --- Time ------------------------------------------------------------------------------------- */

static void decay_begin_anew(struct decay *decay)
{
    memset(decay->backlog, 0, sizeof decay->backlog);
    decay->step_ms_began = 0;
    decay->pages_before = 0;
    decay->taken = 0;
}

static size_t decay_limit(struct decay *decay, uint64_t now_ms, long total_ms, size_t pages)
{
    decay->total_ms = total_ms > 0 ? total_ms : 0;
    if (total_ms < 0) {
        return SIZE_MAX;
    }
    if (total_ms == 0) {
        return 0;
    }
    if (decay->step_ms_began == 0) {
        decay->step_ms_began = now_ms; /* the first look: nothing has been free for long */
        decay->judged_ms = now_ms;
        return SIZE_MAX;
    }
    uint64_t step_ms = (uint64_t)total_ms / DECAY_STEPS;
    step_ms = step_ms != 0 ? step_ms : 1;
    if (now_ms < decay->step_ms_began + step_ms) {
        return SIZE_MAX;
    }
    uint64_t steps = (now_ms - decay->step_ms_began) / step_ms;
    decay->step_ms_began += steps * step_ms;
    check(steps > 0 && decay->step_ms_began <= now_ms && now_ms - decay->step_ms_began < step_ms);
    decay_judge(decay, now_ms);

    decay_forget_taken(decay);
    size_t kept = steps < DECAY_STEPS ? DECAY_STEPS - (size_t)steps : 0; /* steps still in view */
    memmove(decay->backlog, decay->backlog + (DECAY_STEPS - kept), kept * sizeof(size_t));
    memset(decay->backlog + kept, 0, (DECAY_STEPS - kept) * sizeof(size_t));
    /* What came since the last step counts as if it had come right after it: memory that was freed
     * before a long rest is not kept for one more delay. */
    size_t came = pages > decay->pages_before ? pages - decay->pages_before : 0;
    if (kept > 0) {
        decay->backlog[kept] = came;
    }

    size_t limit = decay_sum(decay);
    check(limit < SIZE_MAX / 2); /* no sum below 0 has wrapped */
    decay->pages_before = pages < limit ? pages : limit;
    return limit;
}
