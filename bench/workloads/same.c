/* SPDX-License-Identifier: MIT
 *
 * same: blocks of one size are alive; a random one is freed and another allocated in its place, over and over, on
 * one thread. Four small and medium sizes, with as few alive as lie in some slabs, and so many that these are cold. ns
 * per replacement. Where all blocks are of one size, nothing hides what it costs to find the next free one.
 * Source of the idea: the replacement loop of Larson and Krishnan (ISMM 1998), with the nodes of one kind of which most
 * programs have many.
 */
#include "bench.h"

enum { LIVE_MAX = 10000, STEPS = 16384 };

struct work {
    size_t size, count, at;
};

static void *blocks[LIVE_MAX];
static uint16_t slots[STEPS];

static void run(void *context) {
    struct work *w = context;
    for (size_t i = 0; i < w->count; i++) {
        w->at = (w->at + 1) % STEPS;
        size_t slot = slots[w->at];
        blocks[slot] = replaced(blocks[slot], w->size);
    }
}

int main(int argc, char **argv) {
    bench_start(argc, argv);
    static const size_t sizes[] = {64, 200, 900, 2000}, lives[] = {50, LIVE_MAX};
    uint64_t seed = 12345;
    for (size_t l = 0; l < LENGTH(lives); l++) {
        for (size_t i = 0; i < STEPS; i++)
            slots[i] = (uint16_t)random_between(&seed, 0, (uint32_t)lives[l] - 1);
        for (size_t s = 0; s < LENGTH(sizes); s++) {
            for (size_t i = 0; i < lives[l]; i++) blocks[i] = replaced(NULL, sizes[s]);
            struct work w = {sizes[s], bench_short ? STEPS : 4 * STEPS, 0};
            char row[32];
            snprintf(row, sizeof row, "same/%zu-%zu", lives[l], sizes[s]);
            report(row, measure(run, &w, w.count), "ns");
            for (size_t i = 0; i < lives[l]; i++) free(blocks[i]);
        }
    }
    bench_end("same");
    return 0;
}
