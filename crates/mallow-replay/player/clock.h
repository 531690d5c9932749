/* SPDX-License-Identifier: MIT */
/*
 * The clocks of the player. In lockstep mode the allocator sees the recorded time: the player
 * exports clock_gettime(), so that memory that was given back after a while in the recorded run is
 * given back in the replay too, however fast that goes, and twice the same way.
 */
#ifndef MALLOW_PLAYER_CLOCK_H
#define MALLOW_PLAYER_CLOCK_H

#include <stdint.h>

#if defined(__x86_64__)
#include <x86intrin.h>
#endif

/* Lets the time go on, which stands still from the start. */
void clock_use_real(void);

/* The recorded time; only in lockstep mode, by the lane whose turn it is. */
void clock_set_recorded(uint64_t ns);

/* The real time, whatever the allocator sees. */
uint64_t clock_real_ns(void);

/* A counter for short times, fenced so that the work timed lies between two readings. */
static inline uint64_t clock_ticks(void)
{
#if defined(__x86_64__)
    _mm_lfence();
    uint64_t ticks = __rdtsc();
    _mm_lfence();
    return ticks;
#elif defined(__aarch64__)
    uint64_t ticks;
    __asm__ volatile("isb; mrs %0, cntvct_el0; isb" : "=r"(ticks)::"memory");
    return ticks;
#else
    return clock_real_ns();
#endif
}

#endif
