/* SPDX-License-Identifier: MIT
 *
 * What an attacker must not know, in secure and debug builds: the keys of links and canaries, and
 * random numbers. They come from the kernel once, when the process starts; in the debug build from the
 * option `seed` if it is set, so that they are the same in each run. A child of fork has the
 * keys of its parent, because it has its blocks, but goes on at another place of the numbers. These
 * are mixed from a count and two keys: to tell the next one takes more than to have seen a few, but
 * they are no cipher.
 */
#ifndef MALLOW_SECRET_H
#define MALLOW_SECRET_H

#include "../base/atomic.h"
#include "../os/os.h"
#include "../settings/options.h"

/* Const after secrets_init. Zeros until then: there are no blocks yet. In one line, which nobody writes: each call
 * of the program reads it. */
static struct {
    uint64_t link;     /* of the links in free slots, see slot_next */
    uint64_t link_odd; /* odd */
    uint64_t canary;   /* from which each slab's own comes */
    uint64_t numbers;  /* of random numbers */
    uint64_t padding;  /* eight times the byte behind what was asked for, from 0x80 to 0xfe */
    uint8_t
        step[16]; /* eight times 0, then the padding: eight bytes from the nth on have n of it at
                          their end */
} __attribute__((aligned(CACHE_LINE))) secrets SEALED;

/* A thread takes so many numbers of the count at a time: who writes to a line that all write to waits. */
#define NUMBERS_TAKEN 256u

static struct {
    _Atomic uint64_t taken; /* so many times */
} __attribute__((aligned(CACHE_LINE))) random_numbers;

/* const after secrets_init */
static bool numbers_are_seeded SEALED;

static_assert(sizeof secrets == CACHE_LINE, "nothing that is written lies in the line of the keys");

/* Options are known. */
static void secrets_init(void);

/* In the child of a fork, before it draws any: its numbers are others than those of its parent and of its siblings. Where
 * they come from a seed it draws the same as its parent. */
static void random_diverge(void);

/* Both halves of the product of two numbers, folded into one. */
ALWAYS_INLINE uint64_t secret_mix(uint64_t a, uint64_t b)
{
    unsigned __int128 product = (unsigned __int128)a * b;
    return (uint64_t)product ^ (uint64_t)(product >> 64);
}

/* 64 random bits, by the next of the caller's own numbers; 0 at first. */
ALWAYS_INLINE uint64_t random_next(uint64_t *own)
{
    if (unlikely(*own % NUMBERS_TAKEN == 0)) {
        *own = (atomic_add(&random_numbers.taken, 1) + 1) * NUMBERS_TAKEN;
    }
    uint64_t number = (*own)++;
    return secret_mix(number * 0x9e3779b97f4a7c15u ^ secrets.numbers,
                      secrets.link_odd ^ (number << 32));
}

/* The same for who needs one, now and then. */
ALWAYS_INLINE uint64_t random_bits(void)
{
    uint64_t own = 0;
    return random_next(&own);
}

/* The low 32 of some random bits, as a number below `bound`. */
ALWAYS_INLINE uint32_t random_below(uint64_t bits, uint32_t bound)
{
    return (uint32_t)((bits & UINT32_MAX) * bound >> 32);
}

#endif
