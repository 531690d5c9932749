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
    uint32_t start, next, end;
    uint64_t swapped; /* a bit for each two neighbours */
};

static uint32_t run_take(struct run *run)
{
    uint32_t at = run->next++;
    uint32_t neighbour = at ^ 1;
    bool is_swapped = (run->swapped >> (at / 2 % 64) & 1) != 0;
    return is_swapped && neighbour >= run->start && neighbour < run->end ? neighbour : at;
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
        left[lefts] = (struct run){start, start, end, random_next(&own)};
        lefts += start < end;
    }
    for (uint32_t i = 0; i < count; i++) {
        struct run *run = &left[random_below(random_next(&own), lefts)];
        order[i] = (uint16_t)run_take(run);
        if (run->next == run->end) {
            *run = left[--lefts];
        }
    }
    check(lefts == 0);
}
