/* SPDX-License-Identifier: MIT
 *
 * remote: one thread allocates blocks of 64 bytes, another frees them; they are handed over in
 * batches through a ring. ns per block in the steady state, and what resident memory has grown by
 * at the end, when at most RING batches (0.8 MiB) can be in flight: memory must not pile up.
 * Source of the idea: xmalloc-test of Lever and Boreham, "malloc() performance in a multithreaded
 * Linux environment" (USENIX 2000), as used in mimalloc-bench.
 */
#include "bench.h"
#include <stdatomic.h>

enum { RING = 64, BATCH = 200, SIZE = 64 };

static void *ring[RING][BATCH];
static _Alignas(64) atomic_size_t produced;
static _Alignas(64) atomic_size_t consumed;
static size_t batch_count;

/* Spin for a moment, then give the CPU away: the machine may have fewer CPUs than threads. */
static void wait_a_moment(unsigned *spins) {
    if (++*spins % 64 == 0) sched_yield();
    else __asm__ volatile("" ::: "memory");
}

static void *consume(void *unused) {
    (void)unused;
    for (size_t n = 0; n < batch_count; n++) {
        unsigned spins = 0;
        while (atomic_load_explicit(&produced, memory_order_acquire) == n) wait_a_moment(&spins);
        void **batch = ring[n % RING];
        for (size_t i = 0; i < BATCH; i++) free(batch[i]);
        atomic_store_explicit(&consumed, n + 1, memory_order_release);
    }
    return NULL;
}

static void produce(size_t n) {
    unsigned spins = 0;
    while (n - atomic_load_explicit(&consumed, memory_order_acquire) == RING)
        wait_a_moment(&spins);
    void **batch = ring[n % RING];
    for (size_t i = 0; i < BATCH; i++) {
        char *p = must(malloc(SIZE));
        memset(p, 1, SIZE);
        batch[i] = p;
    }
    atomic_store_explicit(&produced, n + 1, memory_order_release);
}

int main(int argc, char **argv) {
    bench_start(argc, argv);
    size_t per_block = bench_short ? 2500 : 8000;
    batch_count = per_block * (BLOCK_COUNT + 1);
    double before = rss_anon_mib(), times[BLOCK_COUNT];
    pthread_t consumer;
    pthread_create(&consumer, NULL, consume, NULL);
    size_t n = 0;
    for (; n < per_block; n++) produce(n);
    for (size_t block = 0; block < BLOCK_COUNT; block++) {
        double start = now_ns();
        for (size_t end = n + per_block; n < end; n++) produce(n);
        times[block] = (now_ns() - start) / (double)(per_block * BATCH);
    }
    double grown = rss_anon_mib() - before;
    pthread_join(consumer, NULL);
    report("remote/64", median(times, BLOCK_COUNT), "ns");
    report("remote/grown", grown, "MiB");
    bench_end("remote");
    return 0;
}
