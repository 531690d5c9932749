/* SPDX-License-Identifier: MIT
 *
 * churn: threads are started and joined one after the other; each allocates and frees 50 small
 * blocks of several sizes and leaves one behind, which the main thread frees. us per thread on the
 * wall clock and of CPU time (the wall clock shows above all how fast the kernel wakes threads), and
 * growth of resident memory over all of them.
 * Source of the idea: thread-per-request servers; what a thread leaves at its exit must be usable
 * by the next.
 */
#include "bench.h"

enum { BLOCKS = 50 };

static void *live_briefly(void *unused) {
    (void)unused;
    void *blocks[BLOCKS];
    for (size_t i = 0; i < BLOCKS; i++) {
        blocks[i] = must(malloc(16 + i * 8));
        *(char *)blocks[i] = 1;
    }
    for (size_t i = 1; i < BLOCKS; i++) free(blocks[i]);
    return blocks[0];
}

static void run(void *context) {
    size_t count = *(size_t *)context;
    for (size_t i = 0; i < count; i++) {
        pthread_t thread;
        void *left;
        if (pthread_create(&thread, NULL, live_briefly, NULL) != 0) _exit(1);
        pthread_join(thread, &left);
        free(left);
    }
}

int main(int argc, char **argv) {
    bench_start(argc, argv);
    size_t count = bench_short ? 300 : 2000;
    run(&count);
    double before = rss_anon_mib(), cpu_before = cpu_ns();
    report("churn/thread", measure_wall(run, &count, count) / 1e3, "us");
    report("churn/cpu", (cpu_ns() - cpu_before) / 1e3 / (double)(count * (BLOCK_COUNT + 1)), "us");
    report("churn/grown", rss_anon_mib() - before, "MiB");
    bench_end("churn");
    return 0;
}
