/* SPDX-License-Identifier: MIT
 *
 * drained: four threads replace blocks of uniform size, of which each has 2,000, 200,000 times at random, writing a
 * byte to every page; then they free all and fall asleep, and nobody makes a call of the allocator any more. Resident
 * memory above that before the threads existed, right after that (freed) and 4 s later (rest), where free memory
 * goes back to the kernel after 1 s if the allocator has such a setting.
 * Arguments: the smallest and the largest size in KiB.
 * Source of the idea: services whose workers drop their caches; what sleeping threads keep in their own.
 */
#include "bench.h"

enum { THREADS = 4, LIVE = 2000, REPLACED = 200000, SIZES = 8192 };

static uint32_t sizes[SIZES];
static char *blocks[THREADS][LIVE];
static pthread_barrier_t freed;

static void *replace_and_sleep(void *argument) {
    char **own = blocks[(uintptr_t)argument];
    uint64_t seed = 1234 + (uintptr_t)argument;
    for (size_t i = 0; i < REPLACED; i++) {
        size_t at = random_between(&seed, 0, LIVE - 1);
        free(own[at]);
        own[at] = must(malloc(sizes[i % SIZES]));
        write_pages(own[at], sizes[i % SIZES]);
    }
    for (size_t i = 0; i < LIVE; i++) free(own[i]);
    pthread_barrier_wait(&freed);
    for (;;) pause();
    return NULL;
}

int main(int argc, char **argv) {
    bench_start(argc, argv);
    if (argc != 4) return 2;
    size_t low = strtoul(argv[2], NULL, 10) * KIB, high = strtoul(argv[3], NULL, 10) * KIB;
    draw_uniform(sizes, SIZES, low, high, 12345);
    pthread_barrier_init(&freed, NULL, THREADS + 1);
    double before = rss_anon_mib();
    for (size_t i = 0; i < THREADS; i++) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, replace_and_sleep, (void *)(uintptr_t)i) != 0) _exit(1);
    }
    pthread_barrier_wait(&freed);
    double after = rss_anon_mib() - before;
    sleep(4);
    char row[48];
    snprintf(row, sizeof row, "drained/%s-%sKiB-freed", argv[2], argv[3]);
    report(row, after, "MiB");
    snprintf(row, sizeof row, "drained/%s-%sKiB-rest", argv[2], argv[3]);
    report(row, rss_anon_mib() - before, "MiB");
    return 0;
}
