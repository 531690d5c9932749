/* SPDX-License-Identifier: MIT
 *
 * rounds: some blocks of one medium size are allocated, then all are freed in the same order, over and over, on one
 * thread: buffers of one request after the other, or the rows of a table. More than a cache of few blocks holds, and
 * little memory. ns per call.
 * Source of the idea: the batch tests of jemalloc and of rpmalloc-benchmark, with fewer and larger blocks.
 */
#include "bench.h"

enum { COUNT_MAX = 1000, ROUNDS = 40 };

struct work {
    size_t count, size;
};

static char *blocks[COUNT_MAX];

static void run(void *context) {
    const struct work *w = context;
    for (int round = 0; round < ROUNDS; round++) {
        for (size_t i = 0; i < w->count; i++) {
            blocks[i] = must(malloc(w->size));
            *blocks[i] = 1;
        }
        for (size_t i = 0; i < w->count; i++) free(blocks[i]);
    }
}

int main(int argc, char **argv) {
    bench_start(argc, argv);
    static const struct work works[] = {{50, 1500}, {100, 4096}, {200, 9000}, {100, 20000}, {1000, 2000}, {50, 40000}};
    for (size_t i = 0; i < LENGTH(works); i++) {
        struct work w = works[i];
        char row[32];
        snprintf(row, sizeof row, "rounds/%zu-of-%zu", w.count, w.size);
        report(row, measure(run, &w, 2 * ROUNDS * w.count), "ns");
    }
    bench_end("rounds");
    return 0;
}
