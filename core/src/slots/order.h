/* SPDX-License-Identifier: MIT
 *
 * In which order the slots of a small class that nobody had yet come to be handed out, in the
 * secure build: one that nobody can tell in advance. In the debug build with a seed: one that the seed
 * decides, for slots of all classes.
 *
 * Any order of all slots of a page would be the best one. But programs go through what they
 * allocated in the order in which they allocated it (a garbage collector, a list), and a
 * processor brings the next line in time only if addresses rise: with any order CPython took 2.1
 * times as long to go through its objects. So where they are more than a page there are some
 * runs, of a page or more each. Who comes next is any of them; within a run slots come one
 * behind the other, but for two neighbours, of which either may be first. See
 * docs/experiments.md.
 */
#ifndef MALLOW_ORDER_H
#define MALLOW_ORDER_H

#include "../base/base.h"

/* Slots that are put into an order at once, and runs of them. */
#define ORDER_SLOTS_MAX 256u
#define ORDER_RUNS_MAX 4u

/* Writes the numbers below `count` in an order of so many runs; of 1: in any order. */
static void order_choose(uint16_t order[], uint32_t count, uint32_t runs);

#endif
