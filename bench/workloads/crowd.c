/* SPDX-License-Identifier: MIT
 *
 * crowd: 1, 2, 64 or 1,000 threads at once, each with 50 live blocks (16 to 512 bytes) that it
 * replaces one after the other; every thread does its share, waits for the others and does it
 * again. ns of CPU time per replacement, and growth of resident memory while all are alive (the
 * stacks, which are the same for all allocators, included).
 * Source of the idea: thread-per-connection servers; the scaling tests of Hoard and TCMalloc.
 */
#include "bench.h"

enum { LIVE = 50, STACK = 64 * 1024, THREADS_MAX = 1000, TURNS = 4 };

static size_t replacements; /* of each thread and turn */
static pthread_barrier_t turn_over;

static void *work(void *argument) {
    uint64_t seed = (uint64_t)(uintptr_t)argument + 1;
    void *blocks[LIVE] = {0};
    for (int turn = 0; turn < TURNS; turn++) {
        for (size_t i = 0; i < replacements; i++) {
            size_t slot = i % LIVE;
            free(blocks[slot]);
            char *p = must(malloc(random_between(&seed, 16, 512)));
            *p = 1;
            blocks[slot] = p;
        }
        pthread_barrier_wait(&turn_over);
    }
    pthread_barrier_wait(&turn_over);
    for (size_t i = 0; i < LIVE; i++) free(blocks[i]);
    return NULL;
}

static void crowd(size_t count, size_t total) {
    static pthread_t threads[THREADS_MAX];
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, STACK);
    pthread_barrier_init(&turn_over, NULL, (unsigned)count + 1);
    replacements = total / TURNS / count;
    double memory = rss_anon_mib(), cpu = cpu_ns();
    for (size_t i = 0; i < count; i++)
        if (pthread_create(&threads[i], &attributes, work, (void *)(uintptr_t)i) != 0) _exit(1);
    for (int turn = 0; turn < TURNS; turn++) pthread_barrier_wait(&turn_over);
    double grown = rss_anon_mib() - memory;
    pthread_barrier_wait(&turn_over);
    for (size_t i = 0; i < count; i++) pthread_join(threads[i], NULL);
    char row[48];
    snprintf(row, sizeof row, "crowd/%zu", count);
    report(row, (cpu_ns() - cpu) / (double)(replacements * TURNS * count), "ns");
    snprintf(row, sizeof row, "crowd/%zu-rss", count);
    report(row, grown, "MiB");
}

int main(int argc, char **argv) {
    bench_start(argc, argv);
    size_t total = bench_short ? 2000000 : 4000000;
    crowd(1, total);
    crowd(2, total);
    crowd(64, total);
    crowd(1000, total);
    return 0;
}
