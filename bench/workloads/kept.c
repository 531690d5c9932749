/* SPDX-License-Identifier: MIT
 *
 * kept: a million blocks of 16 to 255 bytes (140 MiB) are allocated, written and freed; then the
 * program goes on with a few short-lived blocks every 100 ms (active) or without any call of the
 * allocator (idle; thread: the same, where the allocator was asked for a thread of its own that gives
 * free memory back). Resident memory 1.5 s and 12 s after the burst, above that before it. One block
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

static void report_kept(const char *kind, const char *when, double before) {
    char row[48];
    snprintf(row, sizeof row, "kept/%s-%s", kind, when);
    report(row, rss_anon_mib() - before, "MiB");
}

int main(int argc, char **argv) {
    bench_start(argc, argv);
    if (argc != 3) return 2;
    const char *kind = argv[2];
    bool active = strcmp(kind, "active") == 0;
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
    report_kept(kind, "peak", before);
    keep(must(malloc(64)));
    for (size_t i = 0; i < COUNT; i++) free(blocks[i]);
    double freed = now_ns();
    sleep_until(freed + 1.5e9, active);
    report_kept(kind, "1.5s", before);
    sleep_until(freed + 12e9, active);
    report_kept(kind, "12s", before);
    return 0;
}
