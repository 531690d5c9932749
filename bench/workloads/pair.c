/* SPDX-License-Identifier: MIT
 *
 * pair: one block, allocated and freed at once, of four small sizes. ns per malloc+free pair.
 * The shortest path that an allocator has; the first number that every allocator's paper quotes.
 */
#include "bench.h"

struct work {
    size_t size, count;
};

static void run(void *context) {
    struct work *w = context;
    for (size_t i = 0; i < w->count; i++) {
        char *p = must(malloc(w->size));
        *p = (char)i;
        keep(p);
        free(p);
    }
}

int main(int argc, char **argv) {
    bench_start(argc, argv);
    static const size_t sizes[] = {16, 64, 256, 1024};
    for (size_t i = 0; i < LENGTH(sizes); i++) {
        struct work w = {sizes[i], bench_short ? 300000 : 1000000};
        char row[32];
        snprintf(row, sizeof row, "pair/%zu", sizes[i]);
        report(row, measure(run, &w, w.count), "ns");
    }
    bench_end("pair");
    return 0;
}
