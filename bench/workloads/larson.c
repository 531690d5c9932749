/* SPDX-License-Identifier: MIT
 *
 * larson: a server with workers that come and go. Each of LANES lanes owns 1,000 blocks of 8 to
 * 1,000 bytes; a worker replaces random ones of them, then ends, and a new thread goes on with what
 * it left: so blocks are freed by threads that did not allocate them. ns per replacement (one free
 * and one malloc) on the wall clock.
 * Source of the idea: Larson and Krishnan, "Memory allocation for long-running server applications"
 * (ISMM 1998).
 */
#include "bench.h"

enum { LANES = 2, LIVE = 1000, GENERATIONS = 10, SIZES = 4096 };

struct lane {
    _Alignas(64) void *blocks[LIVE];
    uint64_t seed;
    size_t generation, replacements;
};

static struct lane lanes[LANES];
/* Slot and size of each step, drawn in advance: the generator shall not be measured. */
static uint16_t slots[SIZES], sizes[SIZES];

static void *work(void *argument) {
    struct lane *lane = argument;
    size_t at = random_next(&lane->seed) % SIZES;
    for (size_t i = 0; i < lane->replacements; i++) {
        at = (at + 1) % SIZES;
        size_t slot = slots[at];
        free(lane->blocks[slot]);
        char *p = must(malloc(sizes[at]));
        *p = 1;
        lane->blocks[slot] = p;
    }
    return NULL;
}

/* Starts the workers of a lane one after the other. */
static void *serve(void *argument) {
    struct lane *lane = argument;
    for (lane->generation = 0; lane->generation < GENERATIONS; lane->generation++) {
        pthread_t worker;
        if (pthread_create(&worker, NULL, work, lane) != 0) _exit(1);
        pthread_join(worker, NULL);
    }
    return NULL;
}

static void run(void *unused) {
    (void)unused;
    pthread_t servers[LANES];
    for (size_t i = 0; i < LANES; i++) pthread_create(&servers[i], NULL, serve, &lanes[i]);
    for (size_t i = 0; i < LANES; i++) pthread_join(servers[i], NULL);
}

int main(int argc, char **argv) {
    bench_start(argc, argv);
    uint64_t seed = 12345;
    for (size_t i = 0; i < SIZES; i++) {
        slots[i] = (uint16_t)random_between(&seed, 0, LIVE - 1);
        sizes[i] = (uint16_t)random_between(&seed, 8, 1000);
    }
    size_t replacements = bench_short ? 50000 : 200000;
    for (size_t i = 0; i < LANES; i++) {
        lanes[i].seed = i + 1;
        lanes[i].replacements = replacements;
        for (size_t j = 0; j < LIVE; j++) lanes[i].blocks[j] = must(malloc(sizes[j]));
    }
    double time = measure_wall(run, NULL, LANES * GENERATIONS * replacements);
    report("larson/2-lanes", time, "ns");
    bench_end("larson");
    return 0;
}
