/* SPDX-License-Identifier: MIT
 *
 * huge: 20 blocks of 5 to 25 MiB are alive; a random one is freed and another allocated in its
 * place. The program writes the first and the last byte (huge/replace) or one byte of every page
 * (huge/touched). us per replacement; resident memory of the whole at its peak.
 * Source of the idea: malloc-large of mimalloc-bench; images and matrices.
 */
#include "bench.h"

enum { LIVE = 20 };

struct work {
    size_t count;
    bool touch;
    uint64_t seed;
};

static char *blocks[LIVE];

static void run(void *context) {
    struct work *w = context;
    for (size_t i = 0; i < w->count; i++) {
        size_t slot = random_between(&w->seed, 0, LIVE - 1);
        size_t size = random_between(&w->seed, 5 * MIB, 25 * MIB);
        free(blocks[slot]);
        char *p = must(malloc(size));
        p[0] = p[size - 1] = 1;
        if (w->touch)
            for (size_t at = 0; at < size; at += PAGE) p[at] = 1;
        blocks[slot] = p;
    }
}

int main(int argc, char **argv) {
    bench_start(argc, argv);
    struct work w = {bench_short ? 200 : 500, false, 12345};
    report("huge/replace", measure(run, &w, w.count) / 1e3, "us");
    w = (struct work){20, true, 12345};
    report("huge/touched", measure(run, &w, w.count) / 1e3, "us");
    bench_end("huge");
    return 0;
}
