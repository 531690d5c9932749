/* SPDX-License-Identifier: MIT
 *
 * generations: batches of blocks of log-uniform size are alive; the oldest batch is freed, out of order, and another is
 * allocated in its place, over and over. Sixteen batches of 512 blocks of 16 to 1,024 bytes, and four of 32 blocks of 16
 * bytes to 8 KiB. ns per pair.
 * Source of the idea: what a request or a frame allocates lives until some others have ended; `phases` and `batch` free
 * nearly all there is, `replace` one block at a time.
 */
#include "bench.h"

enum { BLOCKS_MAX = 512, BATCHES_MAX = 16, SIZES = 4096, ORDER = 7, PAIRS = 1 << 17 };

struct work {
    size_t batches, blocks;
    double low, high;
};

static char *alive[BATCHES_MAX][BLOCKS_MAX];
static uint32_t sizes[SIZES];

static void run(void *context) {
    const struct work *w = context;
    uint64_t seed = 88172645463325252u;
    for (size_t done = 0, oldest = 0; done < PAIRS; done += w->blocks, oldest = (oldest + 1) % w->batches) {
        char **batch = alive[oldest];
        for (size_t i = 0; i < w->blocks; i++) free(batch[i * ORDER % w->blocks]); /* prime to it: each once */
        for (size_t i = 0; i < w->blocks; i++) {
            batch[i] = must(malloc(sizes[random_next(&seed) % SIZES]));
            *batch[i] = 1;
        }
    }
}

int main(int argc, char **argv) {
    bench_start(argc, argv);
    static const struct work works[] = {{16, 512, 16, 1024}, {4, 32, 16, 8192}};
    for (size_t i = 0; i < LENGTH(works); i++) {
        struct work w = works[i];
        draw_log_uniform(sizes, SIZES, w.low, w.high, 12345);
        char row[48];
        snprintf(row, sizeof row, "generations/%zu-of-%zu", w.batches, w.blocks);
        report(row, measure(run, &w, PAIRS), "ns");
        for (size_t at = 0; at < w.batches * BLOCKS_MAX; at++) {
            free(alive[at / BLOCKS_MAX][at % BLOCKS_MAX]);
            alive[at / BLOCKS_MAX][at % BLOCKS_MAX] = NULL;
        }
    }
    bench_end("generations");
    return 0;
}
