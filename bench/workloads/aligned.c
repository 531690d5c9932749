/* SPDX-License-Identifier: MIT
 *
 * aligned: 200 live blocks with alignments of 64 bytes to 2 MiB, a random one replaced by another,
 * over and over; and plain pairs of posix_memalign and free. ns per replacement or pair; resident
 * memory at its peak.
 * Source of the idea: vector code, direct input and output, and page-aligned pools.
 */
#include "bench.h"

enum { LIVE = 200, STEPS = 4096 };

struct work {
    size_t alignment, low, high, count;
    bool pair;
};

static void *blocks[LIVE];
static uint32_t sizes[STEPS];
static uint8_t slots[STEPS];

static void run(void *context) {
    struct work *w = context;
    for (size_t i = 0; i < w->count; i++) {
        size_t step = i % STEPS, slot = w->pair ? 0 : slots[step];
        free(blocks[slot]);
        if (posix_memalign(&blocks[slot], w->alignment, sizes[step]) != 0) must(NULL);
        if ((uintptr_t)blocks[slot] % w->alignment != 0) _exit(1);
        *(char *)blocks[slot] = 1;
    }
}

int main(int argc, char **argv) {
    bench_start(argc, argv);
    static const struct {
        const char *name;
        size_t alignment, low, high, count;
        bool pair;
    } rows[] = {
        {"pair-64", 64, 64, 64, 200000, true},
        {"64", 64, 16, 1024, 200000, false},
        {"4KiB", 4 * KIB, 64, 16 * KIB, 20000, false},
        {"2MiB", 2 * MIB, 4 * KIB, 64 * KIB, 400, false},
    };
    for (size_t r = 0; r < LENGTH(rows); r++) {
        uint64_t seed = 12345;
        for (size_t i = 0; i < STEPS; i++) {
            sizes[i] = random_between(&seed, (uint32_t)rows[r].low, (uint32_t)rows[r].high);
            slots[i] = (uint8_t)random_between(&seed, 0, LIVE - 1);
        }
        struct work w = {rows[r].alignment, rows[r].low, rows[r].high,
                         rows[r].count / (bench_short ? 4 : 1), rows[r].pair};
        char row[32];
        snprintf(row, sizeof row, "aligned/%s", rows[r].name);
        report(row, measure(run, &w, w.count), "ns");
        for (size_t i = 0; i < LIVE; i++) {
            free(blocks[i]);
            blocks[i] = NULL;
        }
    }
    bench_end("aligned");
    return 0;
}
