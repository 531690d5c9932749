/* SPDX-License-Identifier: MIT
 *
 * large: malloc+free pairs of 32 KiB to 32 MiB, of which the program writes the first byte
 * (large/SIZE), or one byte of every page (large/SIZE-touched: page faults are what a careless
 * allocator pays here). ns per pair.
 * Source of the idea: the buffers of compilers, decoders and zip libraries; malloc-large of
 * mimalloc-bench.
 */
#include "bench.h"

struct work {
    size_t size, count, step;
};

static void run(void *context) {
    struct work *w = context;
    for (size_t i = 0; i < w->count; i++) {
        char *p = must(malloc(w->size));
        for (size_t at = 0; at < w->size; at += w->step) p[at] = (char)i;
        keep(p);
        free(p);
    }
}

int main(int argc, char **argv) {
    bench_start(argc, argv);
    /* Counts so that a row takes about as long for each size when every pair maps memory. */
    static const struct {
        const char *name;
        size_t size, count, touched_count;
    } rows[] = {
        {"32KiB", 32 * KIB, 20000, 4000}, {"256KiB", 256 * KIB, 10000, 400},
        {"1MiB", MIB, 5000, 80},          {"4MiB", 4 * MIB, 2500, 16},
        {"32MiB", 32 * MIB, 1000, 2},
    };
    for (size_t i = 0; i < LENGTH(rows); i++) {
        struct work w = {rows[i].size, rows[i].count / (bench_short ? 2 : 1), rows[i].size};
        char row[48];
        snprintf(row, sizeof row, "large/%s", rows[i].name);
        report(row, measure(run, &w, w.count), "ns");
        w.count = (rows[i].touched_count + bench_short) / (bench_short ? 2 : 1);
        w.step = PAGE;
        snprintf(row, sizeof row, "large/%s-touched", rows[i].name);
        report(row, measure(run, &w, w.count), "ns");
    }
    bench_end("large");
    return 0;
}
