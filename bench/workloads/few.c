/* SPDX-License-Identifier: MIT
 *
 * few: each thread has 1, 16 or 64 blocks; a random one is freed and one of another size allocated in its
 * place, over and over, as programs do whose buffers are few and never of the same size. The program writes the
 * first byte. ns of CPU time per replacement. Where hundreds of blocks are alive (mixed, replace) what is free
 * among them makes up for a cache of blocks; here nothing does.
 * Arguments: how many blocks, the smallest and the largest size in KiB, and the number of threads.
 * Source of the idea: mixed, with fewer blocks.
 */
#include "bench.h"

enum { SIZES = 4096, BLOCKS_MAX = 64, THREADS_MAX = 8, SECONDS_MAX = 4 };

static uint32_t sizes[SIZES];
static size_t live, count; /* of each thread */
static double end;         /* a slow allocator need not do them all */

static void *replace(void *argument) {
    uint64_t seed = 7919 * (uint64_t)(uintptr_t)argument + 1;
    char *blocks[BLOCKS_MAX] = {0};
    size_t done = 0;
    for (; done < count && (done % 1024 != 0 || now_ns() < end); done++) {
        uint32_t random = random_next(&seed);
        char **place = &blocks[(random >> 16) * live >> 16];
        free(*place);
        *place = must(malloc(sizes[random % SIZES]));
        **place = 1;
    }
    for (size_t i = 0; i < live; i++) free(blocks[i]);
    return (void *)done;
}

int main(int argc, char **argv) {
    bench_start(argc, argv);
    if (argc != 6) return 2;
    live = strtoul(argv[2], NULL, 10);
    size_t low = strtoul(argv[3], NULL, 10), high = strtoul(argv[4], NULL, 10);
    size_t threads = strtoul(argv[5], NULL, 10);
    if (live < 1 || live > BLOCKS_MAX || threads < 1 || threads > THREADS_MAX) return 2;
    draw_uniform(sizes, SIZES, low * KIB, high * KIB, 12345);
    /* In the short form too a thread lives for longer than an allocator needs to get to know it. */
    count = (bench_short ? 2000000 : 8000000) / threads;
    end = now_ns() + SECONDS_MAX * 1e9;
    double before = cpu_ns();
    size_t all_done = run_threads(threads, replace);
    char row[64];
    snprintf(row, sizeof row, "few/%zu-of-%zu-%zuKiB", live, low, high);
    if (threads > 1) snprintf(row + strlen(row), sizeof row - strlen(row), "-%zu-threads", threads);
    report(row, (cpu_ns() - before) / (double)all_done, "ns");
    bench_end(row);
    return 0;
}
