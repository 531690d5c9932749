/* SPDX-License-Identifier: MIT
 *
 * threads: 1,000 threads, each holding 100 small blocks (16 to 255 bytes, 13 MiB in all), all alive
 * at the same time. Growth of resident memory per all of them, thread stacks included.
 * Source of the idea: thread-per-connection servers; caches and slabs per thread multiply.
 */
#include "bench.h"

enum { THREADS = 1000, LIVE = 100, STACK = 64 * 1024 };

static pthread_barrier_t all_allocated, measured;

static void *hold(void *argument) {
    uint64_t seed = (uint64_t)(uintptr_t)argument * 7919 + 1;
    char *blocks[LIVE];
    for (size_t i = 0; i < LIVE; i++) {
        size_t size = random_between(&seed, 16, 255);
        blocks[i] = must(malloc(size));
        memset(blocks[i], 1, size);
    }
    pthread_barrier_wait(&all_allocated);
    pthread_barrier_wait(&measured);
    for (size_t i = 0; i < LIVE; i++) free(blocks[i]);
    return NULL;
}

int main(int argc, char **argv) {
    bench_start(argc, argv);
    static pthread_t threads[THREADS];
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, STACK);
    pthread_barrier_init(&all_allocated, NULL, THREADS + 1);
    pthread_barrier_init(&measured, NULL, THREADS + 1);
    double before = rss_anon_mib(), start = now_ns();
    for (size_t i = 0; i < THREADS; i++) {
        if (pthread_create(&threads[i], &attributes, hold, (void *)(uintptr_t)i) != 0) {
            report("failed", 1, "pthread_create");
            return 1;
        }
    }
    pthread_barrier_wait(&all_allocated);
    double grown = rss_anon_mib() - before;
    double vsz = proc_kib("/proc/self/status", "VmSize:") / 1024;
    pthread_barrier_wait(&measured);
    for (size_t i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    report("threads/time", (now_ns() - start) / 1e6, "ms");
    report("threads/rss", grown, "MiB");
    report("threads/vsz", vsz, "MiB");
    return 0;
}
