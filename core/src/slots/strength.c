/* SPDX-License-Identifier: MIT */
#include "strength.h"

#include "order.h"

static const struct strength strengths[] = {
    {1 * KiB, 64, 0, 0, 0, 4, false},
    {5 * KiB, 5 * KiB, 128 * KiB, 16 * MiB, 64 * KiB, 4, false},
    {8 * KiB, 8 * KiB, 256 * KiB, 64 * MiB, 256 * KiB, 1, true},
    {SLOT_MAX, SLOT_MAX, 1 * MiB, NO_LIMIT, 0, 1, true},
};

static const struct strength of_debug = {SLOT_MAX, SLOT_MAX, 0, 0, 0, 1, false};

static void strength_load(void)
{
    unsigned level = (unsigned)option(OPTION_security);
    check(level >= 1 && level <= sizeof strengths / sizeof *strengths);
    strength = MW_MODE == MW_SECURE ? strengths[level - 1] : of_debug;
    check(strength.order_runs >= 1 && strength.order_runs <= ORDER_RUNS_MAX);
    check(strength.look_whole <= strength.fill_whole && strength.fill_whole <= SLOT_MAX);
}
