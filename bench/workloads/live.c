/* SPDX-License-Identifier: MIT
 *
 * live: 1,000 blocks are allocated, then freed in LIFO, FIFO or random order, over and over; of 64
 * bytes, or of mixed sizes from 16 to 1,024. ns per call (2,000 calls a round).
 * Source of the idea: the batch patterns of the allocator test suites of jemalloc ("batch") and of
 * snmalloc (func-/perf-singlethread).
 */
#include "bench.h"

enum { LIVE = 1000, SIZE_ROUNDS = 16 };

struct work {
    size_t rounds;
    const uint16_t *order;
    bool mixed;
};

static uint16_t lifo[LIVE], fifo[LIVE], shuffled[LIVE];
static uint16_t mixed_sizes[SIZE_ROUNDS][LIVE];
static void *blocks[LIVE];

/* The sizes come from a table, so that the generator is not part of what is measured. */
static void run(void *context) {
    struct work *w = context;
    for (size_t round = 0; round < w->rounds; round++) {
        const uint16_t *sizes = mixed_sizes[round % SIZE_ROUNDS];
        for (size_t i = 0; i < LIVE; i++) {
            char *p = must(malloc(w->mixed ? sizes[i] : 64));
            *p = (char)i;
            blocks[i] = p;
        }
        for (size_t i = 0; i < LIVE; i++) free(blocks[w->order[i]]);
    }
}

static void prepare(void) {
    uint64_t seed = 12345;
    for (uint16_t i = 0; i < LIVE; i++) {
        fifo[i] = shuffled[i] = i;
        lifo[i] = (uint16_t)(LIVE - 1 - i);
    }
    for (uint32_t i = LIVE - 1; i > 0; i--) {
        uint32_t j = random_between(&seed, 0, i);
        uint16_t t = shuffled[i];
        shuffled[i] = shuffled[j];
        shuffled[j] = t;
    }
    for (size_t r = 0; r < SIZE_ROUNDS; r++)
        for (size_t i = 0; i < LIVE; i++)
            mixed_sizes[r][i] = (uint16_t)random_between(&seed, 16, 1024);
}

int main(int argc, char **argv) {
    bench_start(argc, argv);
    prepare();
    const struct {
        const char *name;
        const uint16_t *order;
    } orders[] = {{"lifo", lifo}, {"fifo", fifo}, {"random", shuffled}};
    for (int mixed = 0; mixed < 2; mixed++) {
        for (size_t i = 0; i < LENGTH(orders); i++) {
            struct work w = {bench_short ? 160 : 640, orders[i].order, mixed};
            char row[48];
            snprintf(row, sizeof row, "live/%s-%s", orders[i].name, mixed ? "mixed" : "64");
            report(row, measure(run, &w, w.rounds * LIVE * 2), "ns");
        }
    }
    bench_end("live");
    return 0;
}
