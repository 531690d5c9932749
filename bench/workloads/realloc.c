/* SPDX-License-Identifier: MIT
 *
 * realloc: a block grows by a factor of 1.5 from 16 bytes to 64 MiB, then is freed. Either only
 * the last byte is written at each step (realloc/grow), or the new part is filled as a vector or a
 * string builder fills it (realloc/fill). ms per growth.
 * Source of the idea: growing vectors; most standard libraries grow by 1.5 or 2.
 */
#include "bench.h"

static void grow(bool fill) {
    char *p = NULL;
    size_t old = 0;
    for (size_t size = 16; old < 64 * MIB; size += size / 2) {
        if (size > 64 * MIB) size = 64 * MIB;
        p = must(realloc(p, size));
        if (fill) memset(p + old, 1, size - old);
        else p[size - 1] = 1;
        keep(p);
        old = size;
    }
    free(p);
}

/* Few growths: where each step copies, one takes a tenth of a second. */
static double growth_ms(bool fill) {
    double times[9];
    size_t count = bench_short ? 3 : LENGTH(times);
    grow(fill);
    for (size_t i = 0; i < count; i++) {
        double start = thread_cpu_ns();
        grow(fill);
        times[i] = (thread_cpu_ns() - start) / 1e6;
    }
    return lower_quartile(times, count);
}

int main(int argc, char **argv) {
    bench_start(argc, argv);
    report("realloc/grow", growth_ms(false), "ms");
    report("realloc/fill", growth_ms(true), "ms");
    bench_end("realloc");
    return 0;
}
