/* SPDX-License-Identifier: MIT
 *
 * aging: a heap that grows old. Ten times: 300,000 blocks are allocated, of sizes that differ from
 * generation to generation, and 90 % of all that live are freed at random. Resident memory is read
 * after each half: its average, its peak, and what is left at the end (of which about 4 MiB are
 * alive); and the time per call.
 * Source of the idea: caches and servers that run for weeks; Wilson et al., "Dynamic storage
 * allocation: a survey and critical review" (1995), on why fragmentation needs a phase change.
 */
#include "bench.h"
#include <sys/mman.h>

enum { GENERATIONS = 10, NEW = 300000, SLOTS = NEW + NEW / 2 };

static char **slots;
static size_t used;

static void allocate(uint64_t *seed, uint32_t low, uint32_t high) {
    for (size_t i = 0; i < NEW; i++) {
        size_t size = random_between(seed, low, high);
        char *p = must(malloc(size));
        memset(p, 1, size);
        slots[used++] = p;
    }
}

/* Keeps a tenth, chosen at random, in the order of their birth. */
static void thin_out(uint64_t *seed) {
    size_t kept = 0;
    for (size_t i = 0; i < used; i++) {
        if (random_between(seed, 0, 9) == 0) slots[kept++] = slots[i];
        else free(slots[i]);
    }
    used = kept;
}

int main(int argc, char **argv) {
    bench_start(argc, argv);
    slots = mmap(NULL, SLOTS * sizeof *slots, PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    if (slots == MAP_FAILED) return 1;
    static const struct {
        uint32_t low, high;
    } sizes[] = {{16, 128}, {64, 320}, {200, 260}, {16, 64}, {300, 700}};
    uint64_t seed = 12345;
    double before = rss_anon_mib(), time = 0, sum = 0, peak = 0, last = 0;
    size_t calls = 0;
    for (size_t g = 0; g < GENERATIONS; g++) {
        double start = thread_cpu_ns();
        allocate(&seed, sizes[g % LENGTH(sizes)].low, sizes[g % LENGTH(sizes)].high);
        double full = rss_anon_mib() - before;
        calls += used + NEW;
        thin_out(&seed);
        calls -= used;
        time += thread_cpu_ns() - start;
        last = rss_anon_mib() - before;
        if (full > peak) peak = full;
        sum += full + last;
    }
    report("aging/time", time / (double)calls, "ns");
    report("aging/average-rss", sum / (2 * GENERATIONS), "MiB");
    report("aging/peak", peak, "MiB");
    report("aging/end", last, "MiB");
    return 0;
}
