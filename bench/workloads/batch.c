/* SPDX-License-Identifier: MIT
 *
 * batch: 100,000 blocks (16 to 128 bytes) are allocated, then freed last in first out, first in
 * first out or at random, over and over: more than fits any cache of a thread. ns per call.
 * Source of the idea: the batch tests of jemalloc and of rpmalloc-benchmark.
 */
#include "bench.h"
#include <sys/mman.h>

enum { COUNT = 100000 };

static void **blocks;
static uint32_t *shuffled;
static uint8_t sizes[4096];

struct work {
    int order; /* 0 last in first out, 1 first in first out, 2 at random */
};

static void run(void *context) {
    int order = ((struct work *)context)->order;
    for (size_t i = 0; i < COUNT; i++) {
        char *p = must(malloc(sizes[i % sizeof sizes]));
        *p = 1;
        blocks[i] = p;
    }
    for (size_t i = 0; i < COUNT; i++)
        free(blocks[order == 0 ? COUNT - 1 - i : order == 1 ? i : shuffled[i]]);
}

static void *table(size_t size) {
    void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE,
                   -1, 0);
    if (p == MAP_FAILED) _exit(1);
    return p;
}

int main(int argc, char **argv) {
    bench_start(argc, argv);
    uint64_t seed = 12345;
    blocks = table(COUNT * sizeof *blocks);
    shuffled = table(COUNT * sizeof *shuffled);
    for (size_t i = 0; i < sizeof sizes; i++) sizes[i] = (uint8_t)random_between(&seed, 16, 128);
    for (uint32_t i = 0; i < COUNT; i++) shuffled[i] = i;
    for (uint32_t i = COUNT - 1; i > 0; i--) {
        uint32_t j = random_between(&seed, 0, i), t = shuffled[i];
        shuffled[i] = shuffled[j];
        shuffled[j] = t;
    }
    static const char *const names[] = {"batch/lifo", "batch/fifo", "batch/random"};
    for (int order = 0; order < 3; order++) {
        struct work w = {order};
        report(names[order], measure(run, &w, 2 * COUNT), "ns");
    }
    bench_end("batch");
    return 0;
}
