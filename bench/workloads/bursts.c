/* SPDX-License-Identifier: MIT
 *
 * bursts: 64 MiB in blocks of 16 bytes to 4 KiB are allocated, written and freed, but for one block in a
 * thousand, which survives until the next time; then nothing but a few short-lived blocks for 600 ms. The
 * runner sets the time in which free memory goes back to 1 s where an allocator has such a setting, so that
 * each burst comes before that is over. ms of CPU for each burst, page faults included; resident memory 2 s
 * after the last one above that at first (rest), and its peak.
 * Source of the idea: batches, and requests that come by the second.
 */
#include "bench.h"

enum { BURST_MIB = 64, BLOCKS_MAX = 65536, SURVIVES = 1000, BURSTS = 12, PAUSE_MS = 600, REST_MS = 2000 };

static char *blocks[BLOCKS_MAX];

static void work_a_little(unsigned ms) {
    for (double end = now_ns() + ms * 1e6; now_ns() < end; usleep(20000)) {
        void *p = must(malloc(64));
        keep(p);
        free(p);
    }
}

static size_t burst(uint64_t *seed) {
    size_t count = 0;
    for (size_t sum = 0; sum < BURST_MIB * MIB && count < BLOCKS_MAX; count++) {
        size_t size = random_between(seed, 16, 4096);
        blocks[count] = must(malloc(size));
        memset(blocks[count], 1, size);
        sum += size;
    }
    for (size_t i = 0; i < count; i++)
        if (i % SURVIVES != 0) free(blocks[i]);
    return count;
}

int main(int argc, char **argv) {
    bench_start(argc, argv);
    uint64_t seed = 12345;
    memset(blocks, 1, sizeof blocks); /* the list of blocks is no burden of the allocator */
    double before = rss_anon_mib(), start = cpu_ns();
    unsigned bursts = bench_short ? BURSTS / 2 : BURSTS;
    for (unsigned i = 0; i < bursts; i++) {
        size_t count = burst(&seed);
        work_a_little(PAUSE_MS);
        for (size_t at = 0; at < count; at += SURVIVES) free(blocks[at]);
    }
    report("bursts/burst", (cpu_ns() - start) / bursts / 1e6, "ms");
    work_a_little(REST_MS);
    report("bursts/rest", rss_anon_mib() - before, "MiB");
    bench_end("bursts");
    return 0;
}
