/* SPDX-License-Identifier: MIT
 *
 * sharing: two threads write their own small blocks many times. Active: each allocates its block by
 * itself; passive: the main thread allocates both, each thread frees the one that it was given and
 * allocates its own. Where two blocks share a cache line, each write is a miss. ns per write.
 * Source of the idea: cache-thrash and cache-scratch of Berger et al., "Hoard: a scalable memory
 * allocator for multithreaded applications" (ASPLOS 2000).
 */
#include "bench.h"

enum { THREADS = 2, SIZE = 8, WRITES = 100 };

static size_t rounds;
static pthread_barrier_t start;

static void *write_often(void *given) {
    pthread_barrier_wait(&start);
    free(given);
    for (size_t r = 0; r < rounds; r++) {
        volatile char *p = must(malloc(SIZE));
        for (size_t w = 0; w < WRITES; w++)
            for (size_t i = 0; i < SIZE; i++) p[i]++;
        free((void *)(uintptr_t)p);
    }
    return NULL;
}

static void run(void *context) {
    bool passive = *(bool *)context;
    pthread_t threads[THREADS];
    void *given[THREADS] = {0};
    if (passive)
        for (size_t i = 0; i < THREADS; i++) given[i] = must(malloc(SIZE));
    for (size_t i = 0; i < THREADS; i++)
        if (pthread_create(&threads[i], NULL, write_often, given[i]) != 0) _exit(1);
    for (size_t i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
}

int main(int argc, char **argv) {
    bench_start(argc, argv);
    rounds = bench_short ? 10000 : 20000;
    pthread_barrier_init(&start, NULL, THREADS);
    size_t writes = rounds * WRITES * SIZE;
    bool passive = false;
    report("sharing/active", measure_wall(run, &passive, writes), "ns");
    passive = true;
    report("sharing/passive", measure_wall(run, &passive, writes), "ns");
    bench_end("sharing");
    return 0;
}
