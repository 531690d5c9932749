/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
#include "clock.h"

#include <dlfcn.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

typedef int clock_function(clockid_t, struct timespec *);

/*
 * Some allocators compute "longer ago than the interval" without a sign: the clock of a machine that
 * has just been started would let them give everything back at once.
 */
enum { START_SECONDS = 24 * 3600, NS_PER_SECOND = 1000000000 };

static _Atomic uint64_t recorded_ns; /* atomic, written by the lane whose turn it is */
static clock_function *real_clock;   /* const after init; NULL while the recorded time runs */
static time_t real_start; /* const after init; this second of the real clock is the start */

__attribute__((visibility("default"))) int clock_gettime(clockid_t clock, struct timespec *time)
{
    bool of_cpu = clock == CLOCK_PROCESS_CPUTIME_ID || clock == CLOCK_THREAD_CPUTIME_ID;
    if (real_clock != NULL) {
        int result = real_clock(clock, time);
        time->tv_sec += of_cpu ? 0 : START_SECONDS - real_start;
        return result;
    }
    if (of_cpu || clock < 0) {
        return (int)syscall(SYS_clock_gettime, clock, time);
    }
    uint64_t ns = atomic_load_explicit(&recorded_ns, memory_order_relaxed);
    time->tv_sec = START_SECONDS + (time_t)(ns / NS_PER_SECOND);
    time->tv_nsec = (long)(ns % NS_PER_SECOND);
    return 0;
}

void clock_use_real(void)
{
    real_start = (time_t)(clock_real_ns() / NS_PER_SECOND);
    real_clock = (clock_function *)dlsym(RTLD_NEXT, "clock_gettime");
}

void clock_set_recorded(uint64_t ns)
{
    atomic_store_explicit(&recorded_ns, ns, memory_order_relaxed);
}

uint64_t clock_real_ns(void)
{
    struct timespec time;
    syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * NS_PER_SECOND + (uint64_t)time.tv_nsec;
}
