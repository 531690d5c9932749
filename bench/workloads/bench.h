/* SPDX-License-Identifier: MIT
 *
 * What every workload needs: a clock, a figure of inner blocks, a seeded generator, memory
 * figures from /proc, and result lines for the runner. Nothing here allocates, so that all calls
 * of the allocator are the workload's own.
 *
 * A workload writes lines of the form `row value unit`; `bench_start` writes who serves malloc and
 * `bench_end` the peak of resident memory. The first argument `short` cuts the work of each row.
 */
#ifndef BENCH_H
#define BENCH_H

#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define KIB ((size_t)1024)
#define MIB (KIB * KIB)
#define LENGTH(array) (sizeof(array) / sizeof(array)[0])

enum { BLOCK_COUNT = 15, BLOCK_COUNT_MIN = 3 };
/* A step that meets each page; larger pages are met more than once. */
enum { PAGE = 4096 };

static bool bench_short;

static inline double now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

/* CPU time of all threads: waiting for a CPU, or for another thread to be woken, does not count. */
static inline double cpu_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

/* The compiler must believe that somebody reads `p`, or it removes malloc and free in pairs. */
static inline void keep(const void *p) {
    __asm__ volatile("" : : "r"(p) : "memory");
}

/* xorshift64*: the same sequence for every allocator. */
static inline uint32_t random_next(uint64_t *state) {
    uint64_t x = *state;
    x ^= x >> 12;
    x ^= x << 25;
    x ^= x >> 27;
    *state = x;
    return (uint32_t)((x * 0x2545F4914F6CDD1Du) >> 32);
}

static inline uint32_t random_between(uint64_t *state, uint32_t low, uint32_t high) {
    return low + (uint32_t)(((uint64_t)random_next(state) * (high - low + 1u)) >> 32);
}

/* e to the power of x: its series. Without libm, which would be one more library in each process. */
static inline double power_of_e(double x) {
    double sum = 1, term = 1;
    for (int n = 1; n < 80; n++) sum += term *= x / n;
    return sum;
}

/* Of x from 1 to e^20, by halving the interval that the logarithm lies in. */
static inline double logarithm(double x) {
    double low = 0, high = 20;
    for (int i = 0; i < 60; i++) {
        double middle = (low + high) / 2;
        if (power_of_e(middle) < x) low = middle;
        else high = middle;
    }
    return low;
}

/* Sizes of which as many lie between 1 and 2 KiB as between 2 and 4. */
static inline void draw_log_uniform(uint32_t *sizes, size_t count, double low, double high,
                                    uint64_t seed) {
    double range = logarithm(high / low);
    for (size_t i = 0; i < count; i++)
        sizes[i] = (uint32_t)(low * power_of_e(range * random_next(&seed) / 0x1p32));
}

/* Sizes from `low` to `high`, each as often. */
static inline void draw_uniform(uint32_t *sizes, size_t count, size_t low, size_t high, uint64_t seed) {
    for (size_t i = 0; i < count; i++) sizes[i] = random_between(&seed, (uint32_t)low, (uint32_t)high);
}

/* One byte of each page: what makes the kernel provide all of the block. */
static inline void write_pages(char *p, size_t size) {
    for (size_t at = 0; at < size; at += PAGE) p[at] = 1;
}

static inline void report(const char *row, double value, const char *unit) {
    char line[160];
    int length = snprintf(line, sizeof line, "%s %.4f %s\n", row, value, unit);
    if (write(STDOUT_FILENO, line, (size_t)length) != length) _exit(1);
}

static inline void *must(void *p) {
    if (p == NULL) {
        report("failed", 1, "out-of-memory");
        _exit(1);
    }
    return p;
}

/* Another block in the place of one that is freed (or of NULL), with its first byte written. */
static inline void *replaced(void *block, size_t size) {
    free(block);
    char *p = must(malloc(size));
    *p = 1;
    return p;
}

/* The value in KiB of a line such as `VmHWM:   123 kB` of a file in /proc; 0 if it is not there. */
static inline double proc_kib(const char *path, const char *key) {
    static char text[8192];
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return 0;
    ssize_t length = 0;
    for (ssize_t got; (got = read(fd, text + length, sizeof text - 1 - (size_t)length)) > 0;)
        length += got;
    close(fd);
    text[length] = 0;
    const char *found = strstr(text, key);
    return found ? strtod(found + strlen(key), NULL) : 0;
}

static inline double rss_anon_mib(void) {
    return proc_kib("/proc/self/status", "RssAnon:") / 1024;
}


/* What a quarter of the values lie below. Others on the machine slow down some blocks, by up to a half,
 * for fractions of a second; they speed up none. The least would leave out what an allocator does now
 * and then only. Insertion sort: qsort may call malloc. */
static inline double lower_quartile(double *values, size_t count) {
    for (size_t i = 1; i < count; i++) {
        double v = values[i];
        size_t j = i;
        for (; j > 0 && values[j - 1] > v; j--) values[j] = values[j - 1];
        values[j] = v;
    }
    return values[count / 4];
}

/* CPU time of this thread: on a busy machine, what other programs did in between does not count. */
static inline double thread_cpu_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static inline double measure_within(double seconds, double (*clock)(void), void (*block)(void *),
                                    void *context, size_t ops) {
    double times[BLOCK_COUNT], limit = clock() + seconds * 1e9;
    size_t count = 0;
    block(context);
    while (count < BLOCK_COUNT && (count < BLOCK_COUNT_MIN || clock() < limit)) {
        double start = clock();
        block(context);
        times[count++] = (clock() - start) / (double)ops;
    }
    return lower_quartile(times, count);
}

static inline double measure_by(double (*clock)(void), void (*block)(void *), void *context,
                                size_t ops) {
    return measure_within(bench_short ? 0.5 : 1, clock, block, context, ops);
}

/* Nanoseconds per operation of `block`, which performs `ops` of them on this thread alone: the lower
 * quartile of BLOCK_COUNT blocks after one that warms up. An allocator that is many times slower than
 * the others is content with fewer blocks. */
static inline double measure(void (*block)(void *), void *context, size_t ops) {
    return measure_by(thread_cpu_ns, block, context, ops);
}

/* The same for a block that starts threads and waits for them: on the wall clock. */
static inline double measure_wall(void (*block)(void *), void *context, size_t ops) {
    return measure_by(now_ns, block, context, ops);
}

/* Has so many threads do the work, each with its number, and waits for them: the sum of what they return. */
static inline size_t run_threads(size_t count, void *(*work)(void *)) {
    enum { MOST = 64 };
    pthread_t threads[MOST];
    if (count > MOST) _exit(1);
    for (size_t i = 0; i < count; i++)
        if (pthread_create(&threads[i], NULL, work, (void *)i) != 0) _exit(1);
    size_t sum = 0;
    for (size_t i = 0; i < count; i++) {
        void *returned;
        pthread_join(threads[i], &returned);
        sum += (size_t)(uintptr_t)returned;
    }
    return sum;
}

/* Threads that work in turns wait here before each, and after it. */
static pthread_barrier_t each_turn;

/* A turn of all threads; the caller waits. */
static inline void one_turn(void *unused) {
    (void)unused;
    pthread_barrier_wait(&each_turn);
    pthread_barrier_wait(&each_turn);
}

static inline const char *library_of(void *function) {
    Dl_info info;
    return dladdr(function, &info) && info.dli_fname ? info.dli_fname : "unknown";
}

static inline void bench_start(int argc, char **argv) {
    bench_short = argc > 1 && strcmp(argv[1], "short") == 0;
    char line[4200];
    int length = snprintf(line, sizeof line, "served-by %s\nserved-by %s\n",
                          library_of((void *)(uintptr_t)malloc), library_of((void *)(uintptr_t)free));
    if (write(STDOUT_FILENO, line, (size_t)length) != length) _exit(1);
}

static inline void bench_end(const char *workload) {
    char row[96];
    snprintf(row, sizeof row, "%s/peak-rss", workload);
    report(row, proc_kib("/proc/self/status", "VmHWM:") / 1024, "MiB");
}

#endif
