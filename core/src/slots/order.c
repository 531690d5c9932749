/* SPDX-License-Identifier: MIT */
#include "order.h"

#include "../memory/secret.h"

/* Any order is as likely as any other (Fisher and Yates). */
static void order_shuffle(uint16_t order[], uint32_t count)
{
    uint64_t own = 0;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t at = random_below(random_next(&own), i + 1);
        order[i] = order[at];
        order[at] = (uint16_t)i;
    }
}

struct run {
    uint32_t next, end;
    uint64_t swapped; /* a bit for each two neighbours that are both of the run */
};

static struct run run_new(uint32_t start, uint32_t end, uint64_t swapped)
{
    uint64_t cut_at_start = (uint64_t)(start & 1) << (start / 2 % 64);
    uint64_t cut_at_end = (uint64_t)(end & 1) << (end / 2 % 64);
    return (struct run){start, end, swapped & ~cut_at_start & ~cut_at_end};
}

/* Without a branch, which a processor would guess wrong half of the time. */
static uint32_t run_take(struct run *run)
{
    uint32_t at = run->next++;
    return at ^ (uint32_t)(run->swapped >> (at / 2 % 64) & 1);
}

static void order_choose(uint16_t order[], uint32_t count, uint32_t runs)
{
    check(count > 0 && count <= ORDER_SLOTS_MAX && runs > 0 && runs <= ORDER_RUNS_MAX);
    if (runs == 1) {
        order_shuffle(order, count);
        return;
    }
    struct run left[ORDER_RUNS_MAX];
    uint32_t lefts = 0;
    uint64_t own = 0;
    for (uint32_t i = 0; i < runs; i++) {
        uint32_t start = count * i / runs;
        uint32_t end = count * (i + 1) / runs;
        left[lefts] = run_new(start, end, random_next(&own));
        lefts += start < end;
    }
    uint64_t choices = 0; /* of a byte each */
    for (uint32_t i = 0; i < count; i++) {
        choices = i % 8 == 0 ? random_next(&own) : choices >> 8;
        struct run *run = &left[(choices & 0xff) * lefts >> 8];
        order[i] = (uint16_t)run_take(run);
        if (run->next == run->end) {
            *run = left[--lefts];
        }
    }
    check(lefts == 0);
}
