/* SPDX-License-Identifier: MIT */
#include "strength.h"

#include "order.h"

/* Below this size a call of the kernel for each block costs more than all the rest of its life. */
#define FENCE_MIN (128 * KiB)

static const struct strength strengths[] = {
    {1 * KiB, 64, 0, 0, 0, 4, false, false, 0, FENCE_MIN},
    {5 * KiB, 5 * KiB, 128 * KiB, 16 * MiB, 64 * KiB, 4, false, false, 8, FENCE_MIN},
    {8 * KiB, 8 * KiB, 256 * KiB, 64 * MiB, 256 * KiB, 1, true, true, 8, FENCE_MIN},
    {SLOT_MAX, SLOT_MAX, 1 * MiB, NO_LIMIT, 0, 1, true, true, 8, SLOT_MAX + 1},
};

/* The account is of RATE_OF_SCATTERED alone: to fault in what comes back takes a tenth to a quarter of the
 * time. */
static const struct strength of_others = {SLOT_MAX, SLOT_MAX, 0,     32 * MiB, 512 * KiB,
                                          1,        false,    false, 0,        NO_LIMIT};

static void strength_load(void)
{
    unsigned level = (unsigned)option(OPTION_security);
    check(level >= 1 && level <= sizeof strengths / sizeof *strengths);
    strength = MW_MODE == MW_SECURE ? strengths[level - 1] : of_others;
    check(strength.order_runs >= 1 && strength.order_runs <= ORDER_RUNS_MAX);
    check(strength.look_whole <= strength.fill_whole && strength.fill_whole <= SLOT_MAX);
}
