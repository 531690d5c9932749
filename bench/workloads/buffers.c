/* SPDX-License-Identifier: MIT
 *
 * buffers: each thread has so many, and makes a random one larger or smaller by realloc, over and over; every page
 * that comes with it is written. `grow`: by half its size, until it would be larger than the largest size: then
 * it is freed and another one begun. `resize`: to any size. ns of CPU time for each realloc.
 * Arguments: grow or resize, how many buffers, the smallest and the largest size in KiB, and the number of threads.
 * Source of the idea: vectors that grow beside each other, and buffers that are made as large as each message.
 */
#include "bench.h"

enum { SIZES = 4096, BUFFERS_MAX = 256, THREADS_MAX = 8, SECONDS_MAX = 4 };

static uint32_t sizes[SIZES];
static bool grows;
static size_t buffers, low, high, bytes; /* bytes: that each thread asks for in all */
static double end;                       /* a slow allocator need not do them all */

static size_t next_size(size_t size, uint32_t random) {
    if (!grows)
        return sizes[random % SIZES];
    if (size == 0)
        return low;
    return size + size / 2 <= high ? size + size / 2 : 0;
}

static void *work(void *argument) {
    uint64_t seed = 7919 * (uint64_t)(uintptr_t)argument + 1;
    char *buffer[BUFFERS_MAX] = {0};
    size_t size[BUFFERS_MAX] = {0};
    size_t done = 0;
    for (size_t asked = 0; asked < bytes && (done % 256 != 0 || now_ns() < end); done++) {
        uint32_t random = random_next(&seed);
        size_t which = (random >> 16) * buffers >> 16;
        size_t wanted = next_size(size[which], random);
        if (wanted == 0) {
            free(buffer[which]);
            buffer[which] = NULL;
        } else {
            buffer[which] = must(realloc(buffer[which], wanted));
            size_t from = size[which] < wanted ? size[which] : 0;
            write_pages(buffer[which] + from, wanted - from);
        }
        size[which] = wanted;
        asked += wanted;
    }
    for (size_t i = 0; i < buffers; i++)
        free(buffer[i]);
    return (void *)done;
}

int main(int argc, char **argv) {
    bench_start(argc, argv);
    if (argc != 7)
        return 2;
    grows = strcmp(argv[2], "grow") == 0;
    buffers = strtoul(argv[3], NULL, 10);
    low = strtoul(argv[4], NULL, 10) * KIB;
    high = strtoul(argv[5], NULL, 10) * KIB;
    size_t threads = strtoul(argv[6], NULL, 10);
    if (buffers < 1 || buffers > BUFFERS_MAX || threads < 1 || threads > THREADS_MAX)
        return 2;
    draw_log_uniform(sizes, SIZES, (double)low, (double)high, 12345);
    bytes = (high >= MIB ? 8192 : 16384) * MIB / threads / (bench_short ? 4 : 1);
    end = now_ns() + SECONDS_MAX * 1e9;
    double before = cpu_ns();
    size_t all_done = run_threads(threads, work);
    char row[64];
    snprintf(row, sizeof row, "buffers/%s-%s-of-%s-%sKiB", argv[2], argv[3], argv[4], argv[5]);
    if (threads > 1)
        snprintf(row + strlen(row), sizeof row - strlen(row), "-%zu-threads", threads);
    report(row, (cpu_ns() - before) / (double)all_done, "ns");
    bench_end(row);
    return 0;
}
