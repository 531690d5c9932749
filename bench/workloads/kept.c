/* SPDX-License-Identifier: MIT
 *
 * kept: a million blocks of 16 to 255 bytes (140 MiB) are allocated, written and freed; then the
 * program goes on with a few short-lived blocks every 100 ms (active) or without any call of the
 * allocator (idle). Resident memory 1.5 s and 12 s after the burst, above that before it. One block
 * that was allocated last stays, as something always does; glibc would otherwise cut off its heap.
 * Source of the idea: a server after its peak hour; the question "why does RSS never come down?".
 */
#include "bench.h"
#include <sys/mman.h>

enum { COUNT = 1000000 };

static void sleep_until(double deadline_ns, bool active) {
    while (now_ns() < deadline_ns) {
        if (active) {
            for (int i = 0; i < 100; i++) {
                void *p = must(malloc(64));
                keep(p);
                free(p);
            }
        }
        usleep(100000);
    }
}

int main(int argc, char **argv) {
    bench_start(argc, argv);
    bool active = argc > 2 && strcmp(argv[2], "active") == 0;
    /* The table of pointers is no burden of the allocator. */
    char **blocks = mmap(NULL, COUNT * sizeof *blocks, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    if (blocks == MAP_FAILED) return 1;
    double before = rss_anon_mib();
    uint64_t seed = 12345;
    for (size_t i = 0; i < COUNT; i++) {
        size_t size = random_between(&seed, 16, 255);
        blocks[i] = must(malloc(size));
        memset(blocks[i], 1, size);
    }
    report(active ? "kept/active-peak" : "kept/idle-peak", rss_anon_mib() - before, "MiB");
    keep(must(malloc(64)));
    for (size_t i = 0; i < COUNT; i++) free(blocks[i]);
    double freed = now_ns();
    sleep_until(freed + 1.5e9, active);
    report(active ? "kept/active-1.5s" : "kept/idle-1.5s", rss_anon_mib() - before, "MiB");
    sleep_until(freed + 12e9, active);
    report(active ? "kept/active-12s" : "kept/idle-12s", rss_anon_mib() - before, "MiB");
    return 0;
}
