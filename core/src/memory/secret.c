/* SPDX-License-Identifier: MIT */
#include "secret.h"

#include <string.h>

#define ONE_IN_EACH_BYTE 0x0101010101010101u

#define SECRETS 5u

static void bits_from(uint64_t seed, uint64_t key, uint64_t bits[SECRETS])
{
    for (unsigned i = 0; i < SECRETS; i++) {
        seed += 0x9e3779b97f4a7c15u;
        bits[i] ^= secret_mix(seed, key ^ 0xe7037ed1a0b428dbu);
    }
}

/* Eight times a byte that no text in ASCII has, which is what an overflow writes most often, and that is neither 0 nor
 * 0xff. */
static uint64_t padding_of(uint64_t bits)
{
    return (0x80 + bits % 0x7f) * ONE_IN_EACH_BYTE;
}

static void secrets_init(void)
{
    if (!MW_SECRETS) {
        return;
    }
    uint64_t bits[SECRETS] = {0};
    numbers_are_seeded = MW_SEED && option(OPTION_seed) != 0;
    if (numbers_are_seeded) {
        bits_from((uint64_t)option(OPTION_seed), 0, bits);
    } else if (!os_random(bits, sizeof bits)) {
        /* A kernel that refuses has still placed the stack at random. */
        bits_from(os_now_ns() ^ (uintptr_t)bits << 20, (uintptr_t)&secrets, bits);
    }
    secrets.link = bits[0];
    secrets.link_odd = bits[1] | 1;
    secrets.canary = bits[2];
    secrets.numbers = bits[3];
    secrets.padding = padding_of(bits[4]);
    memcpy(secrets.step + 8, &secrets.padding, sizeof secrets.padding);
}

static void random_diverge(void)
{
    if (MW_SECRETS && !numbers_are_seeded) {
        uint64_t seed = os_now_ns() ^ (uint64_t)os_thread_id() << 32;
        atomic_add(&random_numbers.taken, secret_mix(seed, secrets.link_odd) >> 16);
    }
}
