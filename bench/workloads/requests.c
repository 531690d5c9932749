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
    size_t blocks, at;
    bool backwards;
};

static uint32_t sizes[SIZES];
static char *blocks[BLOCKS_MAX];

static void run(void *context) {
    struct work *w = context;
    for (size_t i = 0; i < w->blocks; i++) {
        blocks[i] = must(malloc(sizes[w->at++ % SIZES]));
        *blocks[i] = 1;
    }
    for (size_t i = 0; i < w->blocks; i++) free(blocks[w->backwards ? w->blocks - 1 - i : i]);
    w->backwards = !w->backwards;
}

static void run_many(void *context) {
    for (size_t blocks_done = 0; blocks_done < (bench_short ? 20000 : 60000);
         blocks_done += ((struct work *)context)->blocks)
        run(context);
}

int main(int argc, char **argv) {
    bench_start(argc, argv);
    if (argc != 5) return 2;
    struct work w = {strtoul(argv[2], NULL, 10), 0, false};
    size_t low = strtoul(argv[3], NULL, 10), high = strtoul(argv[4], NULL, 10);
    if (w.blocks < 1 || w.blocks > BLOCKS_MAX) return 2;
    uint64_t seed = 12345;
    for (size_t i = 0; i < SIZES; i++)
        sizes[i] = random_between(&seed, (uint32_t)(low * KIB), (uint32_t)(high * KIB));
    size_t done = ((bench_short ? 20000 : 60000) + w.blocks - 1) / w.blocks * w.blocks;
    char row[64];
    snprintf(row, sizeof row, "requests/%zu-of-%zu-%zuKiB", w.blocks, low, high);
    report(row, measure_within(SECONDS_MAX, thread_cpu_ns, run_many, &w, done), "ns");
    bench_end(row);
    return 0;
}
