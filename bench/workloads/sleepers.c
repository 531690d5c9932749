/* SPDX-License-Identifier: MIT
 *
 * sleepers: fifty threads allocate and write 2 MiB each, in blocks of 16 bytes to 4 KiB, free all of
 * it, and fall asleep: one after the other (turns), or all at once (together). The main thread goes on
 * with a few short-lived blocks every 100 ms. Resident memory above that before the threads existed:
 * after the last one has freed (freed), and after the time in which free memory goes back to the kernel
 * (rest). The last argument is that time, set by the runner where an allocator has such a setting: 1s,
 * measured after 3 s; or 10s, the default of some, after 12 s.
 * Source of the idea: pools of worker threads, of which most wait after a burst.
 */
#include "bench.h"

enum { SLEEPERS = 50, BURST = 2 * 1024 * 1024, SIZES = 4096, BLOCKS_MAX = 8192, STACK = 256 * 1024 };

static uint32_t sizes[SIZES];
static bool together;
static pthread_barrier_t all_allocated, freed;
static char *blocks[SLEEPERS][BLOCKS_MAX];

static void *burst_and_sleep(void *argument) {
    size_t self = (size_t)(uintptr_t)argument, count = 0, sum = 0;
    uint64_t seed = 7919 * (uint64_t)self + 1;
    while (sum < BURST && count < BLOCKS_MAX) {
        size_t size = sizes[random_next(&seed) % SIZES];
        blocks[self][count] = must(malloc(size));
        memset(blocks[self][count++], 1, size);
        sum += size;
    }
    if (together) pthread_barrier_wait(&all_allocated);
    for (size_t i = 0; i < count; i++) free(blocks[self][i]);
    pthread_barrier_wait(&freed);
    for (;;) pause();
    return NULL;
}

static void work_a_little(double seconds) {
    for (double end = now_ns() + seconds * 1e9; now_ns() < end; usleep(100000)) {
        for (int i = 0; i < 100; i++) {
            void *p = must(malloc(64));
            keep(p);
            free(p);
        }
    }
}

int main(int argc, char **argv) {
    bench_start(argc, argv);
    if (argc != 4) return 2;
    together = strcmp(argv[2], "together") == 0;
    draw_log_uniform(sizes, SIZES, 16, 4 * KIB, 12345);
    /* The lists of blocks are no burden of the allocator. */
    for (size_t i = 0; i < SLEEPERS; i++)
        for (size_t j = 0; j < BLOCKS_MAX; j += PAGE / sizeof(char *)) blocks[i][j] = (char *)1;
    pthread_barrier_init(&all_allocated, NULL, SLEEPERS);
    pthread_barrier_init(&freed, NULL, together ? SLEEPERS + 1 : 2);
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, STACK);
    double before = rss_anon_mib();
    for (size_t i = 0; i < SLEEPERS; i++) {
        pthread_t thread;
        if (pthread_create(&thread, &attributes, burst_and_sleep, (void *)(uintptr_t)i) != 0) _exit(1);
        if (!together) pthread_barrier_wait(&freed);
    }
    if (together) pthread_barrier_wait(&freed);
    double after = rss_anon_mib() - before;
    work_a_little(strcmp(argv[3], "1s") == 0 ? 3 : 12);
    char row[48];
    snprintf(row, sizeof row, "sleepers/%s-%s-freed", argv[2], argv[3]);
    report(row, after, "MiB");
    snprintf(row, sizeof row, "sleepers/%s-%s-rest", argv[2], argv[3]);
    report(row, rss_anon_mib() - before, "MiB");
    return 0;
}
