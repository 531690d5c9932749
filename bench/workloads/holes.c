/* SPDX-License-Identifier: MIT
 *
 * holes: a million blocks of 16 to 255 bytes, 90 % of them freed at random, then 100,000 blocks of
 * 300 to 1,000 bytes: does the new data go into the holes of the old? Resident memory at the end,
 * and the time of the three phases together, per call.
 * Source of the idea: the fragmentation of long-lived heaps (caches, editors, browsers); only
 * allocators that merge neighbours fill these holes.
 */
#include "bench.h"
#include <sys/mman.h>

enum { OLD = 1000000, NEW = 100000 };

static char *written(size_t size) {
    char *p = must(malloc(size));
    memset(p, 1, size);
    return p;
}

int main(int argc, char **argv) {
    bench_start(argc, argv);
    char **blocks = mmap(NULL, (OLD + NEW) * sizeof *blocks, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    if (blocks == MAP_FAILED) return 1;
    uint64_t seed = 12345;
    double before = rss_anon_mib(), start = thread_cpu_ns();
    for (size_t i = 0; i < OLD; i++) blocks[i] = written(random_between(&seed, 16, 255));
    size_t calls = OLD + NEW;
    for (size_t i = 0; i < OLD; i++) {
        if (random_between(&seed, 0, 9) == 0) continue;
        free(blocks[i]);
        calls++;
    }
    for (size_t i = 0; i < NEW; i++) blocks[OLD + i] = written(random_between(&seed, 300, 1000));
    report("holes/time", (thread_cpu_ns() - start) / (double)calls, "ns");
    report("holes/rss", rss_anon_mib() - before, "MiB");
    return 0;
}
