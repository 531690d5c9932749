/* SPDX-License-Identifier: MIT
 *
 * Shared by the promise programs. Each is a program of its own, run with the library preloaded as
 * users do; it prints the figure that it measured beside the limit, and fails if it is over.
 */
#ifndef TEST_PROMISE_H
#define TEST_PROMISE_H

#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "../../src/insight/stats_page.h"
#include "../test.h"

enum { KIB = 1024, MIB = 1024 * 1024 };

#ifndef PROMISE_RUNS_WITHOUT /* those that open the library by themselves, or also run without */
/* The loader only warns of a library that is not there: the program would keep the libc's promises. */
__attribute__((constructor)) static void promise_is_of_mallow(void)
{
    CHECK_MSG(dlsym(RTLD_DEFAULT, "mw_malloc") != NULL, "the library is not preloaded");
}
#endif

/* Reads a file of /proc without stdio, which would allocate. */
static inline size_t promise_read(const char *path, char *text, size_t size)
{
    int file = open(path, O_RDONLY);
    CHECK_MSG(file >= 0, "%s", path);
    size_t used = 0;
    for (ssize_t got; used < size - 1 && (got = read(file, text + used, size - 1 - used)) > 0;) {
        used += (size_t)got;
    }
    close(file);
    text[used] = 0;
    return used;
}

/* One line of /proc/self/status or smaps_rollup, in bytes: promise_field("status", "VmSize:"). */
static inline size_t promise_field(const char *file, const char *name)
{
    static char path[64], text[65536];
    snprintf(path, sizeof path, "/proc/self/%s", file);
    promise_read(path, text, sizeof text);
    const char *at = strstr(text, name);
    CHECK_MSG(at != NULL, "no %s in %s", name, path);
    return (size_t)strtoull(at + strlen(name), NULL, 10) * KIB;
}

/* Starts threads with small stacks, of which `barriers` count one more than there are threads, for the first one. */
static inline void promise_start_crowd(pthread_t threads[], unsigned count, void *(*run)(void *),
                                       pthread_barrier_t *barriers[2])
{
    enum { STACK = 128 * KIB };
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    CHECK_EQ(pthread_attr_setstacksize(&attributes, STACK), 0);
    for (int i = 0; i < 2; i++) {
        pthread_barrier_init(barriers[i], NULL, count + 1);
    }
    for (unsigned i = 0; i < count; i++) {
        CHECK_EQ(pthread_create(&threads[i], &attributes, run, (void *)(uintptr_t)i), 0);
    }
}

/* How much a figure has grown; 0 if it is less. */
static inline size_t promise_growth(size_t before, size_t now)
{
    return now > before ? now - before : 0;
}

static inline size_t promise_mappings(void)
{
    static char text[1 << 20];
    size_t lines = 0, length = promise_read("/proc/self/maps", text, sizeof text);
    for (size_t i = 0; i < length; i++) {
        lines += text[i] == '\n';
    }
    return lines;
}

/* Whether the library is that of a mode: "fast", "secure" or "debug". */
static inline bool promise_is_mode(const char *mode)
{
    const struct stats_page *page = dlsym(RTLD_DEFAULT, "mw_stats_page");
    CHECK(page != NULL);
    const char *word = strchr(page->build, ' ');
    return word != NULL && strcmp(word + 1, mode) == 0;
}

/* A figure of stats.def, as mw_stats_read gives it. */
static inline size_t promise_stat(const char *name)
{
    bool (*read)(const char *, uint64_t *) = dlsym(RTLD_DEFAULT, "mw_stats_read");
    uint64_t value = 0;
    CHECK_MSG(read != NULL && read(name, &value), "no figure %s", name);
    return (size_t)value;
}

/* Whether a child that writes what is there already is ended. */
static inline bool promise_traps(volatile char *at)
{
    __asm__("" : "+r"(at)); /* it may lie behind what a compiler knows */
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
        *at = *at;
        _exit(0);
    }
    int status;
    CHECK_EQ(waitpid(child, &status, 0), child);
    CHECK(WIFSIGNALED(status) || (WIFEXITED(status) && WEXITSTATUS(status) == 0));
    return WIFSIGNALED(status);
}

/* Prints the figure that users may quote, then checks it. */
static inline void promise_at_most(const char *what, size_t figure, size_t limit, const char *unit)
{
    printf("%s: %zu %s (at most %zu)\n", what, figure, unit, limit);
    fflush(stdout);
    CHECK_MSG(figure <= limit, "%s: %zu %s", what, figure, unit);
}

/* So long a test waits for what must come at last: a busy machine may need it. */
enum { PROMISE_PATIENCE_MS = 60000 };

static inline long promise_now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static inline void promise_sleep_ms(long ms)
{
    nanosleep(&(struct timespec){ms / 1000, ms % 1000 * 1000000}, NULL);
}

/* What a small piece of memory may take more where the system makes huge pages for all programs. */
static inline size_t promise_huge_page(void)
{
    char text[64] = "";
    int file = open("/sys/kernel/mm/transparent_hugepage/enabled", O_RDONLY);
    if (file >= 0) {
        CHECK(read(file, text, sizeof text - 1) > 0);
        close(file);
    }
    return strstr(text, "[always]") != NULL ? 2 * MIB : 0;
}

/* The number of rounds: the short form, or the long one with MALLOW_LONG in the environment. */
static inline int promise_rounds(int short_rounds, int long_rounds)
{
    return getenv("MALLOW_LONG") ? long_rounds : short_rounds;
}

#endif
