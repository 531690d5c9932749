/* SPDX-License-Identifier: MIT
 *
 * calloc: calloc+free pairs of 64 bytes to 16 MiB; the program writes the first and the last byte.
 * ns per pair. Memory that is known to be zero need not be cleared again.
 * Source of the idea: interpreters, hash tables and image buffers, which ask for cleared memory.
 */
#include "bench.h"

struct work {
    size_t size, count;
};

static void run(void *context) {
    struct work *w = context;
    for (size_t i = 0; i < w->count; i++) {
        char *p = must(calloc(1, w->size));
        if (p[w->size / 2] != 0) _exit(1);
        p[0] = p[w->size - 1] = 1;
        keep(p);
        free(p);
    }
}

int main(int argc, char **argv) {
    bench_start(argc, argv);
    static const struct {
        const char *name;
        size_t size, count;
    } rows[] = {
        {"64", 64, 500000},       {"1KiB", KIB, 250000}, {"16KiB", 16 * KIB, 20000},
        {"256KiB", 256 * KIB, 600}, {"1MiB", MIB, 200},    {"16MiB", 16 * MIB, 20},
    };
    for (size_t i = 0; i < LENGTH(rows); i++) {
        struct work w = {rows[i].size, rows[i].count / (bench_short ? 4 : 1)};
        char row[32];
        snprintf(row, sizeof row, "calloc/%s", rows[i].name);
        report(row, measure(run, &w, w.count), "ns");
    }
    bench_end("calloc");
    return 0;
}
