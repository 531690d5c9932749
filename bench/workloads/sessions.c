/* SPDX-License-Identifier: MIT
 *
 * sessions: a server with two or eight workers. A request makes 100 to 500 objects of 16 to 2,048 bytes and one to
 * three buffers of 1 to 64 KiB, log-uniform, writes the beginning of each, replaces the sixteen objects of one of
 * 4,096 sessions that all workers share, and frees what it made in the order in which it did. CPU time per request.
 * Argument: the number of workers.
 * Source of the idea: application servers that keep sessions in memory.
 */
#include "bench.h"

enum {
    SIZES = 4096,
    SESSIONS = 4096,
    KEPT = 16,
    LOCKS = 64,
    OBJECTS_MAX = 500,
    BUFFERS_MAX = 3,
    WORKERS_MAX = 8
};

static uint32_t object_sizes[SIZES], buffer_sizes[SIZES];
static char *sessions[SESSIONS][KEPT];
static pthread_mutex_t locks[LOCKS];
static size_t requests; /* of each worker */

static char *make(uint32_t size, uint32_t written) {
    char *p = must(malloc(size));
    memset(p, 1, size < written ? size : written);
    return p;
}

static void renew(size_t session, uint64_t *seed) {
    pthread_mutex_lock(&locks[session % LOCKS]);
    for (size_t i = 0; i < KEPT; i++) {
        free(sessions[session][i]);
        sessions[session][i] = make(object_sizes[random_next(seed) % SIZES], 1);
    }
    pthread_mutex_unlock(&locks[session % LOCKS]);
}

static void *work(void *argument) {
    uint64_t seed = (uint64_t)(uintptr_t)argument + 1;
    for (size_t i = 0; i < requests; i++) {
        char *made[OBJECTS_MAX + BUFFERS_MAX];
        size_t count = 0;
        for (size_t left = random_between(&seed, 100, OBJECTS_MAX); left > 0; left--)
            made[count++] = make(object_sizes[random_next(&seed) % SIZES], 256);
        for (size_t left = random_between(&seed, 1, BUFFERS_MAX); left > 0; left--)
            made[count++] = make(buffer_sizes[random_next(&seed) % SIZES], PAGE);
        renew(random_next(&seed) % SESSIONS, &seed);
        for (size_t j = 0; j < count; j++) free(made[j]);
    }
    return NULL;
}

int main(int argc, char **argv) {
    bench_start(argc, argv);
    size_t workers = strtoul(argv[2], NULL, 10);
    if (workers < 1 || workers > WORKERS_MAX) return 2;
    draw_log_uniform(object_sizes, SIZES, 16, 2 * KIB, 1);
    draw_log_uniform(buffer_sizes, SIZES, KIB, 64 * KIB, 2);
    for (size_t i = 0; i < LOCKS; i++) pthread_mutex_init(&locks[i], NULL);
    requests = (bench_short ? 8000 : 40000) / workers;
    double before = cpu_ns();
    run_threads(workers, work);
    char row[64];
    snprintf(row, sizeof row, "sessions/%zu-workers", workers);
    report(row, (cpu_ns() - before) / (double)(requests * workers) / 1000, "us");
    bench_end(row);
    return 0;
}
