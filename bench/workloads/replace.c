/* SPDX-License-Identifier: MIT
 *
 * replace: blocks of one range of sizes are alive; a random one is freed and another of the range
 * allocated in its place, over and over. Sizes are log-uniform: as many between 1 and 2 KiB as
 * between 2 and 4. CPU time per replacement, each range in a process of its own, so that the peak
 * of resident memory is that of the range.
 * Arguments: RANGE, `first` or `pages` (what is written: the first byte of a block, or one byte of
 * each page), and the number of threads, each with live blocks of its own.
 * Source of the idea: the replacement loop of Larson and Krishnan (ISMM 1998). The ranges are those
 * of strings and nodes, network buffers, documents, images, and of all these mixed.
 */
#include "bench.h"

enum { SIZES = 4096, THREADS_MAX = 8, LIVE_MAX = 20000 };
/* Long enough that all but the slowest make the same number of replacements: the peak grows with it. And that lists
 * and limits have settled: what an allocator does in its first hundredth of a second tells little of a server. */
enum { SECONDS_MAX = 2 };

/* Counts: replacements of one inner block, by what is written. */
struct range {
    const char *name;
    double low, high;
    uint32_t live, first_count, pages_count;
};

static const struct range RANGES[] = {
    {"8-512B", 8, 512, 20000, 800000, 400000},
    {"512B-32KiB", 512, 32 * KIB, 2000, 480000, 160000},
    {"4-128KiB", 4 * KIB, 128 * KIB, 500, 320000, 80000},
    {"32-512KiB", 32 * KIB, 512 * KIB, 200, 80000, 16000},
    {"512KiB-8MiB", 512 * KIB, 8 * MIB, 20, 16000, 300},
    {"5-25MiB", 5 * MIB, 25 * MIB, 20, 1600, 60},
    {"8B-1MiB", 8, MIB, 5000, 240000, 40000},
};

struct set {
    char *blocks[LIVE_MAX];
    uint64_t seed;
};

static struct set sets[THREADS_MAX];
static uint32_t sizes[SIZES], live, count;
static bool every_page;

static void put(struct set *set, size_t slot, size_t size) {
    char *p = must(malloc(size));
    write_pages(p, every_page ? size : 1);
    set->blocks[slot] = p;
}

static void fill(struct set *set) {
    for (size_t i = 0; i < live; i++) put(set, i, sizes[random_next(&set->seed) % SIZES]);
}

static void replace(void *context) {
    struct set *set = context;
    for (size_t i = 0; i < count; i++) {
        size_t slot = random_between(&set->seed, 0, live - 1);
        /* The low bits of the seed are independent enough of those that chose the slot. */
        size_t size = sizes[set->seed % SIZES];
        free(set->blocks[slot]);
        put(set, slot, size);
    }
}

static void *replace_in_turns(void *context) {
    fill(context);
    for (;;) {
        pthread_barrier_wait(&each_turn);
        replace(context);
        pthread_barrier_wait(&each_turn);
    }
    return NULL;
}

static double measure_alone(void) {
    fill(&sets[0]);
    return measure_within(SECONDS_MAX, thread_cpu_ns, replace, &sets[0], count);
}

static double measure_threads(uint32_t threads) {
    pthread_barrier_init(&each_turn, NULL, threads + 1);
    for (uint32_t i = 0; i < threads; i++) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, replace_in_turns, &sets[i]) != 0) _exit(1);
    }
    return measure_within(SECONDS_MAX, cpu_ns, one_turn, NULL, (size_t)count * threads);
}

int main(int argc, char **argv) {
    bench_start(argc, argv);
    const struct range *range = NULL;
    for (size_t i = 0; argc == 5 && i < LENGTH(RANGES); i++)
        if (strcmp(argv[2], RANGES[i].name) == 0) range = &RANGES[i];
    uint32_t threads = argc == 5 ? (uint32_t)atoi(argv[4]) : 0;
    if (range == NULL || threads < 1 || threads > THREADS_MAX) {
        fprintf(stderr, "usage: replace short|full RANGE first|pages 1..8\n");
        return 2;
    }
    every_page = strcmp(argv[3], "pages") == 0;
    live = range->live;
    count = (every_page ? range->pages_count : range->first_count) / (bench_short ? 2 : 1);
    draw_log_uniform(sizes, SIZES, range->low, range->high, 12345);
    for (uint32_t i = 0; i < threads; i++) sets[i].seed = 88172645463325252u + i;

    char row[48];
    int length = snprintf(row, sizeof row, "replace/%s%s", range->name, every_page ? "-pages" : "");
    if (threads > 1) snprintf(row + length, sizeof row - (size_t)length, "-%u-threads", threads);
    double ns = threads == 1 ? measure_alone() : measure_threads(threads);
    bool in_us = range->low >= 512 * KIB;
    report(row, in_us ? ns / 1e3 : ns, in_us ? "us" : "ns");
    bench_end(row);
    return 0;
}
