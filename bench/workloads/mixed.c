/* SPDX-License-Identifier: MIT
 *
 * mixed: 1,000 blocks are alive; a random one is freed and one of a random size allocated in its
 * place, over and over, on one thread. Four ranges of sizes; the program writes the first byte. ns
 * per replacement. Unlike the pairs of `large`, no block of the same size is waiting.
 * Source of the idea: the replacement loop of Larson and Krishnan (ISMM 1998), with the sizes of
 * documents, images and network buffers.
 */
#include "bench.h"

enum { LIVE = 1000, STEPS = 8192 };

struct work {
    size_t count, at;
};

static void *blocks[LIVE];
static uint32_t sizes[STEPS];
static uint16_t slots[STEPS];

static void run(void *context) {
    struct work *w = context;
    for (size_t i = 0; i < w->count; i++) {
        w->at = (w->at + 1) % STEPS;
        size_t slot = slots[w->at];
        blocks[slot] = replaced(blocks[slot], sizes[w->at]);
    }
}

int main(int argc, char **argv) {
    bench_start(argc, argv);
    static const struct {
        const char *name;
        uint32_t low, high;
    } ranges[] = {
        {"16B-4KiB", 16, 4 * KIB},
        {"1-32KiB", KIB, 32 * KIB},
        {"16-128KiB", 16 * KIB, 128 * KIB},
        {"64-512KiB", 64 * KIB, 512 * KIB},
    };
    uint64_t seed = 12345;
    for (size_t r = 0; r < LENGTH(ranges); r++) {
        for (size_t i = 0; i < STEPS; i++) {
            sizes[i] = random_between(&seed, ranges[r].low, ranges[r].high);
            slots[i] = (uint16_t)random_between(&seed, 0, LIVE - 1);
        }
        struct work w = {bench_short ? 8192 : 32768, 0};
        char row[32];
        snprintf(row, sizeof row, "mixed/%s", ranges[r].name);
        report(row, measure(run, &w, w.count), "ns");
        for (size_t i = 0; i < LIVE; i++) {
            free(blocks[i]);
            blocks[i] = NULL;
        }
    }
    bench_end("mixed");
    return 0;
}
