/* SPDX-License-Identifier: MIT
 *
 * cleared: calloc of 1 to 64 MiB, of which the program writes two bytes (sparse: what the kernel
 * gives is zero already, and clearing it would cost a page fault for each page) or all (dense). Pairs
 * of one size, and four live blocks of log-uniform sizes replaced at random. us of CPU per block; peak
 * of resident memory.
 * Source of the idea: hash tables, bit sets and shadow memory (sparse), matrices and images (dense).
 */
#include "bench.h"

enum { LIVE = 4, SIZES = 256 };

struct work {
    size_t size, count;
    bool dense;
    uint64_t seed;
};

static char *live[LIVE];
static uint32_t sizes[SIZES];

static char *cleared(const struct work *w, size_t size) {
    char *p = must(calloc(1, size));
    if (p[size / 2] != 0 || p[size - 1] != 0) {
        report("failed", 1, "not-zero");
        _exit(1);
    }
    if (w->dense) memset(p, 1, size);
    else p[size / 3] = p[size - 1] = 1;
    return p;
}

static void pairs(void *context) {
    struct work *w = context;
    for (size_t i = 0; i < w->count; i++) free(cleared(w, w->size));
}

static void replace(void *context) {
    struct work *w = context;
    for (size_t i = 0; i < w->count; i++) {
        size_t slot = random_between(&w->seed, 0, LIVE - 1);
        size_t size = sizes[random_next(&w->seed) % SIZES];
        free(live[slot]);
        live[slot] = cleared(w, size);
    }
}

int main(int argc, char **argv) {
    bench_start(argc, argv);
    bool dense = argc > 2 && strcmp(argv[2], "dense") == 0;
    const char *kind = dense ? "dense" : "sparse";
    char row[48];
    static const struct {
        const char *name;
        size_t size, sparse_count, dense_count;
    } rows[] = {
        {"1MiB", MIB, 100, 40}, {"4MiB", 4 * MIB, 40, 10}, {"16MiB", 16 * MIB, 20, 3},
        {"64MiB", 64 * MIB, 10, 1},
    };
    struct work w = {.dense = dense, .seed = 88172645463325252u};
    for (size_t i = 0; i < LENGTH(rows); i++) {
        w.size = rows[i].size;
        w.count = dense ? rows[i].dense_count : rows[i].sparse_count;
        snprintf(row, sizeof row, "calloc/%s-%s", kind, rows[i].name);
        report(row, measure_within(0.12, thread_cpu_ns, pairs, &w, w.count) / 1e3, "us");
    }
    draw_log_uniform(sizes, SIZES, MIB, 64 * MIB, 12345);
    w.count = dense ? 4 : 40;
    snprintf(row, sizeof row, "calloc/%s-mixed", kind);
    report(row, measure_within(0.25, thread_cpu_ns, replace, &w, w.count) / 1e3, "us");
    snprintf(row, sizeof row, "calloc/%s", kind);
    bench_end(row);
    return 0;
}
