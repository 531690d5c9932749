/* SPDX-License-Identifier: MIT
 *
 * migrate: threads with sizes that are powers of two (8 bytes to 16 KiB, small ones far more often)
 * keep blocks of their own, exchange some through a table that all share, and end, leaving what
 * they hold to the next generation: so blocks migrate and owners die. ns per allocation on the wall
 * clock, two threads at a time.
 * Source of the idea: mstress of mimalloc's test suite, as used in mimalloc-bench; rptest of
 * rpmalloc-benchmark.
 */
#include "bench.h"
#include <stdatomic.h>

enum { THREADS = 2, GENERATIONS = 20, HELD = 400, SHARED = 1000 };

static _Atomic(void *) shared[SHARED];
static size_t steps;

static size_t size_drawn(uint64_t *seed) {
    uint32_t bits = random_next(seed);
    size_t log2 = 3 + (bits & 3);
    /* One in 16 is up to 2 KiB, one in 256 up to 16 KiB. */
    if ((bits & 0xF0) == 0) log2 += 4;
    if ((bits & 0xFF0) == 0) log2 += 3;
    return (size_t)1 << log2;
}

static void *block_new(uint64_t *seed) {
    size_t size = size_drawn(seed);
    char *p = must(malloc(size));
    p[0] = p[size - 1] = 1;
    return p;
}

static void *live(void *argument) {
    uint64_t seed = (uint64_t)(uintptr_t)argument;
    void *held[HELD] = {0};
    for (size_t i = 0; i < steps; i++) {
        size_t slot = random_between(&seed, 0, HELD - 1);
        free(held[slot]);
        held[slot] = block_new(&seed);
        if (i % 4 == 0) { /* an exchange: whoever comes next frees what is left here */
            size_t place = random_between(&seed, 0, SHARED - 1);
            held[slot] = atomic_exchange_explicit(&shared[place], held[slot], memory_order_acq_rel);
        }
    }
    for (size_t i = 0; i < HELD; i++) {
        if (i % 2) {
            free(held[i]);
        } else {
            size_t place = random_between(&seed, 0, SHARED - 1);
            free(atomic_exchange_explicit(&shared[place], held[i], memory_order_acq_rel));
        }
    }
    return NULL;
}

static void run(void *unused) {
    (void)unused;
    for (size_t g = 0; g < GENERATIONS; g++) {
        pthread_t threads[THREADS];
        for (size_t i = 0; i < THREADS; i++)
            if (pthread_create(&threads[i], NULL, live, (void *)(uintptr_t)(g * THREADS + i + 1)))
                _exit(1);
        for (size_t i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    }
}

int main(int argc, char **argv) {
    bench_start(argc, argv);
    steps = bench_short ? 8000 : 25000;
    report("migrate/allocation", measure_wall(run, NULL, steps * THREADS * GENERATIONS), "ns");
    bench_end("migrate");
    return 0;
}
