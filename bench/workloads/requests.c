/* SPDX-License-Identifier: MIT
 *
 * requests: for each request so many blocks of uniform size are allocated, of each the first byte is written, and all
 * are freed, in the order of their allocation or against it in turn; then comes the next. ns per block. Unlike in
 * phases nothing survives a request, and it may have more blocks than an allocator expects of one.
 * Arguments: how many blocks, the smallest and the largest size in KiB.
 * Source of the idea: phases, with fewer and larger blocks.
 */
#include "bench.h"

enum { SIZES = 4096, BLOCKS_MAX = 1000, SECONDS_MAX = 2 };

struct work {
    size_t requests, blocks, at;
    bool backwards;
};

static uint32_t sizes[SIZES];
static char *blocks[BLOCKS_MAX];

static void answer(struct work *w) {
    for (size_t i = 0; i < w->blocks; i++) {
        blocks[i] = must(malloc(sizes[w->at++ % SIZES]));
        *blocks[i] = 1;
    }
    for (size_t i = 0; i < w->blocks; i++) free(blocks[w->backwards ? w->blocks - 1 - i : i]);
    w->backwards = !w->backwards;
}

static void run(void *context) {
    struct work *w = context;
    for (size_t i = 0; i < w->requests; i++) answer(w);
}

int main(int argc, char **argv) {
    bench_start(argc, argv);
    if (argc != 5) return 2;
    struct work w = {.blocks = strtoul(argv[2], NULL, 10)};
    size_t low = strtoul(argv[3], NULL, 10), high = strtoul(argv[4], NULL, 10);
    if (w.blocks < 1 || w.blocks > BLOCKS_MAX) return 2;
    draw_uniform(sizes, SIZES, low * KIB, high * KIB, 12345);
    w.requests = (bench_short ? 20000 : 60000) / w.blocks;
    char row[64];
    snprintf(row, sizeof row, "requests/%zu-of-%zu-%zuKiB", w.blocks, low, high);
    report(row, measure_within(SECONDS_MAX, thread_cpu_ns, run, &w, w.requests * w.blocks), "ns");
    bench_end(row);
    return 0;
}
