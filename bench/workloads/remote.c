/* SPDX-License-Identifier: MIT
 *
 * remote: one thread allocates blocks of 64 bytes, others free them; they are handed over in
 * batches through a ring. ns per block in the steady state with one consumer, and what resident
 * memory has grown by at its end with one and with three (grown, grown-3), when at most RING batches
 * (0.8 MiB) can be in flight: memory must not pile up.
 * Source of the idea: xmalloc-test of Lever and Boreham, "malloc() performance in a multithreaded
 * Linux environment" (USENIX 2000), as used in mimalloc-bench.
 */
#include "bench.h"
#include <stdatomic.h>

enum { RING = 64, BATCH = 200, SIZE = 64, CONSUMERS_MAX = 3 };

struct consumer {
    _Alignas(64) atomic_size_t consumed; /* number of the next batch that it waits for */
    size_t first;
};

static void *ring[RING][BATCH];
static _Alignas(64) atomic_size_t produced;
static struct consumer consumers[CONSUMERS_MAX];
static size_t batch_count, consumer_count;

/* Spin for a moment, then give the CPU away: the machine may have fewer CPUs than threads. */
static void wait_a_moment(unsigned *spins) {
    if (++*spins % 64 == 0) sched_yield();
    else __asm__ volatile("" ::: "memory");
}

/* Batches go to the consumers by turns. */
static void *consume(void *argument) {
    struct consumer *self = argument;
    for (size_t n = self->first; n < batch_count; n += consumer_count) {
        unsigned spins = 0;
        while (atomic_load_explicit(&produced, memory_order_acquire) <= n) wait_a_moment(&spins);
        void **batch = ring[n % RING];
        for (size_t i = 0; i < BATCH; i++) free(batch[i]);
        atomic_store_explicit(&self->consumed, n + consumer_count, memory_order_release);
    }
    return NULL;
}

static void produce(size_t n) {
    if (n >= RING) {
        unsigned spins = 0;
        struct consumer *last = &consumers[(n - RING) % consumer_count];
        while (atomic_load_explicit(&last->consumed, memory_order_acquire) <= n - RING)
            wait_a_moment(&spins);
    }
    void **batch = ring[n % RING];
    for (size_t i = 0; i < BATCH; i++) {
        char *p = must(malloc(SIZE));
        memset(p, 1, SIZE);
        batch[i] = p;
    }
    atomic_store_explicit(&produced, n + 1, memory_order_release);
}

/* ns per block, and growth in MiB. */
static double steady_state(size_t count, double *grown) {
    size_t per_block = bench_short ? 2500 : 8000;
    double before = rss_anon_mib(), times[BLOCK_COUNT];
    pthread_t threads[CONSUMERS_MAX];
    consumer_count = count;
    batch_count = per_block * (BLOCK_COUNT + 1);
    atomic_store(&produced, 0);
    for (size_t i = 0; i < count; i++) {
        consumers[i].first = i;
        atomic_store(&consumers[i].consumed, i);
        if (pthread_create(&threads[i], NULL, consume, &consumers[i]) != 0) _exit(1);
    }
    size_t n = 0;
    for (; n < per_block; n++) produce(n);
    for (size_t block = 0; block < BLOCK_COUNT; block++) {
        double start = now_ns();
        for (size_t end = n + per_block; n < end; n++) produce(n);
        times[block] = (now_ns() - start) / (double)(per_block * BATCH);
    }
    *grown = rss_anon_mib() - before;
    for (size_t i = 0; i < count; i++) pthread_join(threads[i], NULL);
    return lower_quartile(times, BLOCK_COUNT);
}

int main(int argc, char **argv) {
    bench_start(argc, argv);
    double grown, grown_3;
    report("remote/64", steady_state(1, &grown), "ns");
    steady_state(3, &grown_3);
    report("remote/grown", grown, "MiB");
    report("remote/grown-3", grown_3, "MiB");
    bench_end("remote");
    return 0;
}
