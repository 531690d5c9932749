/* SPDX-License-Identifier: MIT
 *
 * exchange: two threads, and eight, which are more than most machines that the figures are of have CPUs. Each
 * allocates blocks of log-uniform size, 8 to 512 bytes or 0.5 to 32 KiB; it keeps every second one in one of 64
 * places of its own, and leaves every other one in one of 4,096 that all share; and frees what lay there. So
 * one of four blocks, or seven of sixteen, are freed by a thread that did not allocate them. ns of CPU time per
 * block.
 * Arguments: RANGE, and the number of threads.
 * Source of the idea: Lever and Boreham, "malloc() performance in a multithreaded Linux environment" (USENIX 2000),
 * whose threads hand blocks on in one direction.
 */
#include "bench.h"

#include <stdatomic.h>

enum { SIZES = 4096, SHARED = 4096, OWN = 64, THREADS_MAX = 8 };

static _Atomic(char *) shared[SHARED];
static uint32_t sizes[SIZES];
static size_t count; /* of each thread */

static void *work(void *argument) {
    uint64_t seed = (uint64_t)(uintptr_t)argument + 1;
    char *own[OWN] = {0};
    for (size_t i = 0; i < count; i++) {
        uint32_t random = random_next(&seed);
        char *p = must(malloc(sizes[random % SIZES]));
        *p = 1;
        if (i % 2 == 0) {
            p = atomic_exchange(&shared[random >> 20], p);
        } else {
            char **place = &own[random >> 26];
            char *old = *place;
            *place = p;
            p = old;
        }
        free(p);
    }
    for (size_t i = 0; i < OWN; i++) free(own[i]);
    return NULL;
}

int main(int argc, char **argv) {
    bench_start(argc, argv);
    bool is_small = strcmp(argv[2], "8-512B") == 0;
    size_t threads = strtoul(argv[3], NULL, 10);
    if (threads < 1 || threads > THREADS_MAX) return 2;
    draw_log_uniform(sizes, SIZES, is_small ? 8 : 512, is_small ? 512 : 32 * KIB, 12345);
    /* In the short form too a thread lives for longer than an allocator needs to get to know it. */
    count = (is_small ? 16000000 : 4000000) / threads / (bench_short ? 2 : 1);
    double before = cpu_ns();
    run_threads(threads, work);
    char row[64];
    snprintf(row, sizeof row, "exchange/%s-%zu-threads", argv[2], threads);
    report(row, (cpu_ns() - before) / (double)(count * threads), "ns");
    bench_end(row);
    return 0;
}
