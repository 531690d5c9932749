/* SPDX-License-Identifier: MIT */
#include "sample.h"

#include "../memory/fence.h"
#include "../os/log.h"
#include "../settings/options.h"
#include "probe.h"
#include "unwind.h"

#include <string.h>
#include <sys/auxv.h>

PROBE_LISTENERS uint16_t mallow_probe_alloc_listeners;
PROBE_LISTENERS uint16_t mallow_probe_free_listeners;

/* --- Chance ----------------------------------------------------------------------------------- */

/* A division takes as long as several terms. */
#define SERIES 12u
static const double inverse[] = {0,        1,        1.0 / 2,  1.0 / 3, 1.0 / 4,  1.0 / 5,
                                 1.0 / 6,  1.0 / 7,  1.0 / 8,  1.0 / 9, 1.0 / 10, 1.0 / 11,
                                 1.0 / 12, 1.0 / 13, 1.0 / 14, 1.0 / 15};

/* (1 - exp(-x)) / x, for |x| < 0.4, to 13 digits: 1 - x/2 (1 - x/3 (1 - ... */
static double share_series(double x)
{
    double sum = 1;
    for (unsigned i = SERIES; i > 1; i--) {
        sum = 1 - sum * (x * inverse[i]);
    }
    return sum;
}

static double share_until(double x)
{
    if (x > 40) {
        return 1;
    }
    if (x < 0.25) {
        return x * share_series(x);
    }
    uint64_t halvings =
        (uint64_t)(x * 1.44269504088896340736 + 0.5); /* exp(-x) = exp(-rest) / 2^n */
    double rest = x - (double)halvings * 0.69314718055994530942;
    uint64_t bits = (1023 - halvings) << 52;
    double scale;
    memcpy(&scale, &bits, sizeof scale);
    return 1 - scale * (1 - rest * share_series(rest));
}

static double minus_log(double x)
{
    const uint64_t fraction = ((uint64_t)1 << 52) - 1;
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    int exponent = (int)(bits >> 52) - 1023;
    bits = (bits & fraction) | (uint64_t)1023 << 52;
    memcpy(&x, &bits, sizeof x); /* from 1 to 2 */
    if (x > 1.41421356) {
        x /= 2;
        exponent++;
    }
    double ratio = (x - 1) / (x + 1), square = ratio * ratio; /* at most 0.172, and 0.0295 */
    double sum = 0;
    for (unsigned i = 15; i > 1; i -= 2) {
        sum = (sum + inverse[i]) * square;
    }
    return -(2 * ratio * (sum + 1) + exponent * 0.69314718055994530942);
}

/* splitmix64 */
static uint64_t sampler_random(struct sampler *sampler)
{
    uint64_t value = sampler->random += 0x9e3779b97f4a7c15u;
    value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9u;
    value = (value ^ (value >> 27)) * 0x94d049bb133111ebu;
    return value ^ (value >> 31);
}

static uint64_t profile_distance_bytes(unsigned thinning)
{
    return (uint64_t)1 << (atomic_get(&profile.rate_log2) + thinning);
}

static double profile_distance(unsigned thinning)
{
    return (double)profile_distance_bytes(thinning);
}

/* 0 < x <= 1 */
static double sampler_even(struct sampler *sampler)
{
    return (double)((sampler_random(sampler) >> 11) + 1) / 9007199254740992.0; /* 2^53 */
}

static double sampler_points(const struct sampler *sampler, size_t size, unsigned thinning)
{
    return sampler->takes_profile ? (double)size / profile_distance(thinning) : 0;
}

static uint32_t sampler_turns_up_to(struct sampler *sampler, double points, uint32_t most)
{
    double even = sampler_even(sampler);
    if (1 - even >=
        points * ((double)most + 1)) { /* nor is the logarithm less, so it is not needed */
        return most;
    }
    double turns = minus_log(even) / points;
    return turns < (double)most ? (uint32_t)turns : most;
}

static uint32_t sampler_turns(struct sampler *sampler, double points)
{
    return sampler_turns_up_to(sampler, points, INT32_MAX);
}

static bool sampler_narrows(struct sampler *sampler, double points, double of_points)
{
    points =
        points < of_points ? points : of_points; /* the distance may have been set in between */
    return sampler_even(sampler) * share_until(of_points) <= share_until(points);
}

static bool sampler_takes_guard(struct sampler *sampler, size_t size, unsigned thinning)
{
    if (profile.guard_rate == 0 || !sampler->takes_profile) {
        return !sampler->takes_profile;
    }
    double points = sampler_points(sampler, size, thinning);
    return !sampler_narrows(sampler, points, points + profile.guard_rate);
}

static bool sampler_coin(struct sampler *sampler)
{
    return (sampler_random(sampler) & 1) != 0;
}

static void profile_guard_every(uint64_t blocks)
{
    /* Of a block out of one: so much that there are no slots before the next. */
    profile.guard_rate = blocks > 1 ? minus_log(1 - 1 / (double)blocks) : 64;
}

/* The bytes of blocks of pages until the next sample. */
static void sampler_draw_large(struct sampler *sampler)
{
    sampler->large_thinning = sampler->thinning;
    sampler->until_large =
        (uint64_t)(minus_log(sampler_even(sampler)) * profile_distance(sampler->thinning));
}

static bool sampler_takes(struct sampler *sampler, size_t size)
{
    if (!sampler->takes_profile) {
        return false;
    }
    bool is_sample = sampler->until_large < size;
    if (is_sample) {
        sampler->taken_thinning = sampler->large_thinning;
    } else {
        sampler->until_large -= size;
    }
    /* Chance begins anew, too, when samples have become more frequent: the next one would come late. */
    if (is_sample || sampler->large_thinning > sampler->thinning) {
        sampler_draw_large(sampler);
    }
    return is_sample;
}

/* --- Thinning --------------------------------------------------------------------------------- */

/* What a thread may ask for in a nanosecond before its samples are thinned out: 2 GB in a second, which is a sample in
 * 262 us by the default distance, and takes 1 to 2. Most programs that write to what they get are slower. */
#define BYTES_A_NS 2u

/* After so many samples the clock is read; at a tick, if they took longer than this. */
#define SAMPLER_WINDOW 32u
#define SAMPLER_PAUSE_NS ((uint64_t)16 * 1000 * 1000)

/* So much that no thread comes there. */
#define THINNING_MOST 20u
static_assert(40 + THINNING_MOST < 64, "the largest distance is a number of 64 bits");

static void sampler_begin_window(struct sampler *sampler, uint64_t now_ns)
{
    sampler->window_ns = now_ns;
    sampler->window_bytes = 0;
    sampler->window_samples = 0;
}

/* As often as may be, or half as often where it was so and that is close. */
static void sampler_end_window(struct sampler *sampler, uint64_t now_ns)
{
    uint64_t most = (now_ns - sampler->window_ns) * BYTES_A_NS;
    unsigned least = 0;
    while (least < THINNING_MOST && sampler->window_bytes >> least > most) {
        least++;
    }
    bool is_close = sampler->window_bytes >> least > most - most / 4;
    if (sampler->thinning != least + 1 || !is_close) {
        sampler->thinning = (uint8_t)least;
    }
    sampler_begin_window(sampler, now_ns);
}

/* A sample was taken. */
static void sampler_note(struct sampler *sampler)
{
    if (MW_TRACK || !option(OPTION_prof_thinning)) {
        return;
    }
    /* What costs time is the sample: few blocks, however large, do not make samples of small ones rare. */
    sampler->window_bytes += profile_distance_bytes(sampler->taken_thinning);
    if (++sampler->window_samples >= SAMPLER_WINDOW) {
        sampler_end_window(sampler, os_now_ns());
    }
}

/* The clock of ticks is a coarse one. */
static void sampler_follow_clock(struct sampler *sampler, uint64_t now_ms)
{
    if (sampler->thinning != 0 && now_ms * 1000000 > sampler->window_ns + SAMPLER_PAUSE_NS &&
        option(OPTION_prof_thinning)) {
        sampler_end_window(sampler, os_now_ns());
    }
}

/* Whether a sampler goes on where another thread has just ended: threads that live for a short time would all be
 * sampled as often as may be until their first window ends. */
static bool sampler_goes_on(const struct sampler *sampler, bool takes_profile, uint64_t now_ns)
{
    return takes_profile && sampler->takes_profile &&
           sampler->round == atomic_get(&profile.round) &&
           now_ns - sampler->window_ns <= SAMPLER_PAUSE_NS;
}

static void sampler_begin(struct sampler *sampler, bool takes_profile)
{
    uint64_t now_ns = os_now_ns();
    bool goes_on = sampler_goes_on(sampler, takes_profile, now_ns);
    sampler->takes_profile = takes_profile;
    sampler->stack = (struct known_stack){0, 0};
    const void *at_random = (const void *)getauxval(AT_RANDOM); /* 16 bytes at any address */
    uint64_t seed = 0;
    if (at_random != NULL) {
        memcpy(&seed, at_random, sizeof seed);
    }
    sampler->random ^= (uintptr_t)sampler * 0x9e3779b97f4a7c15u ^ now_ns;
    sampler->random += seed;
    if (!goes_on) {
        sampler->thinning = 0;
        sampler_begin_window(sampler, now_ns);
    }
    sampler_draw_large(sampler);
    sampler->round = atomic_get(&profile.round);
}

/* --- State ------------------------------------------------------------------------------------ */

static uint64_t profile_interval_bytes(void)
{
    long log2 = option(OPTION_lg_prof_interval);
    return log2 >= 0 ? (uint64_t)1 << log2 : 0;
}

static void profile_load(void)
{
    if (MW_IN_LIBC) {
        return;
    }
    profile_note_own();
    bool by_signal = option(OPTION_prof_signal) != 0;
    atomic_set(&profile.is_enabled, option(OPTION_prof) || by_signal);
    atomic_set(&profile.is_active, option(OPTION_prof) && option(OPTION_prof_active));
    atomic_set(&profile.starts_active, option(OPTION_prof_thread_active_init));
    atomic_set(&profile.dumps_at_peak, option(OPTION_prof_gdump));
    atomic_set(&profile.rate_log2, (uint32_t)option(OPTION_lg_prof_sample));
    atomic_set(&profile.rates[0], (uint32_t)option(OPTION_lg_prof_sample));
    atomic_set(&profile.until_interval, profile_interval_bytes());
}

/* The counters are written by tracers, from outside. */
static bool probe_has_listeners(const uint16_t *listeners)
{
    return *(const volatile uint16_t *)listeners != 0;
}

static bool profile_is_wanted(void)
{
    return PROFILE_IS_POSSIBLE &&
           (atomic_get(&profile.is_active) || probe_has_listeners(&mallow_probe_alloc_listeners));
}

static void profile_set_active(bool is_active)
{
    atomic_set(&profile.is_active, is_active);
}

static void profile_reset(unsigned rate_log2)
{
    uint32_t epoch = atomic_get(&profile.epoch);
    do { /* again, if another reset came in between */
        for (struct call_stack *at = store_newest(); at != NULL; at = at->older) {
            for (unsigned i = 0; i < SAMPLE_FIGURES; i++) {
                atomic_set(&figures_of_epoch(at, epoch + 1)[i], 0);
            }
        }
        atomic_set(&profile.rates[(epoch + 1) % 2], rate_log2);
    } while (!atomic_replace(&profile.epoch, &epoch, epoch + 1)); /* pairs with sample_count */
    /* Another reset may have come since: its rate. */
    atomic_set(&profile.rate_log2, atomic_get(&profile.rates[atomic_get(&profile.epoch) % 2]));
    atomic_add(&profile.round, 1);
}

/* --- Samples ---------------------------------------------------------------------------------- */

/* How many blocks a sample stands for, in BLOCK_UNIT. */
static uint64_t sample_weight(size_t size, uint32_t epoch, uint32_t thinning)
{
    double distance = (double)((uint64_t)1 << (atomic_get(&profile.rates[epoch % 2]) + thinning));
    return (uint64_t)(BLOCK_UNIT / share_until((double)size / distance) + 0.5);
}

static uint64_t weighted_bytes(size_t size, uint64_t weight)
{
    return (uint64_t)((double)size * (double)weight / BLOCK_UNIT + 0.5);
}

static NOINLINE void probe_alloc(const void *block, size_t size, uint64_t weighted)
{
    if (unlikely(probe_has_listeners(&mallow_probe_alloc_listeners))) {
        __asm__ volatile(
            PROBE_NOTE("otel_memory", "alloc", "mallow_probe_alloc_listeners", "8@%0 8@%1 8@%2")
            :
            : "r"(block), "r"(size), "r"(weighted));
    }
}

static NOINLINE void probe_free(const void *block)
{
    if (unlikely(probe_has_listeners(&mallow_probe_free_listeners))) {
        __asm__ volatile(PROBE_NOTE("otel_memory", "free", "mallow_probe_free_listeners", "8@%0")
                         :
                         : "r"(block));
    }
}

static uint32_t stack_of_caller(struct known_stack *known)
{
    uintptr_t frames[UNWIND_MOST];
    size_t count = unwind_sample(frames, (size_t)option(OPTION_prof_bt_max), known);
    uint32_t id = store_put(frames, count);
    if (id == 0) {
        atomic_add(&profile.lost, 1);
    }
    return id;
}

/* Counts a new sample of a call stack, NULL where none was kept, and says of which epoch it is. *bytes: how many
 * it stands for. */
static uint32_t sample_count(struct call_stack *stack, size_t size, uint32_t thinning,
                             uint64_t *bytes)
{
    uint32_t epoch = atomic_get_acquire(&profile.epoch); /* pairs with profile_reset */
    uint64_t weight = sample_weight(size, epoch, thinning);
    *bytes = weighted_bytes(size, weight);
    if (stack != NULL) {
        _Atomic uint64_t *figures = figures_of_epoch(stack, epoch);
        atomic_add(&figures[LIVE_BLOCKS], weight);
        atomic_add(&figures[LIVE_BYTES], *bytes);
        atomic_add(&figures[ALL_BLOCKS], weight);
        atomic_add(&figures[ALL_BYTES], *bytes);
    }
    return epoch;
}

static void sample_uncount(struct call_stack *stack, size_t size, struct sample sample)
{
    if (sample.epoch == atomic_get_acquire(&profile.epoch)) { /* pairs with profile_reset */
        uint64_t weight = sample_weight(size, sample.epoch, sample.thinning);
        _Atomic uint64_t *figures = figures_of_epoch(stack, sample.epoch);
        atomic_sub(&figures[LIVE_BLOCKS], weight);
        atomic_sub(&figures[LIVE_BYTES], weighted_bytes(size, weight));
    }
}

static NOINLINE struct sample sample_begin(const void *block, size_t size,
                                           struct known_stack *known, uint32_t thinning)
{
    struct sample sample = {.stack = atomic_get(&profile.is_active) ? stack_of_caller(known) : 0,
                            .thinning = thinning};
    uint64_t bytes;
    sample.epoch = sample_count(store_get(sample.stack), size, thinning, &bytes);
    probe_alloc(block, size, bytes);
    return sample;
}

static NOINLINE void sample_end(struct sample sample, const void *block, size_t size)
{
    struct call_stack *stack = store_get(sample.stack);
    if (stack != NULL) {
        sample_uncount(stack, size, sample);
    }
    probe_free(block);
}

static void sample_note(struct sample sample, size_t size)
{
    bool begins_dumps = atomic_get(&profile.dumps_at_peak) || option(OPTION_lg_prof_interval) >= 0;
    if (sample.stack != 0 && begins_dumps) {
        profile_note_allocated(
            weighted_bytes(size, sample_weight(size, sample.epoch, sample.thinning)));
    }
}

static NOINLINE void sample_take(struct extent *extent, size_t size, struct sampler *sampler)
{
    check(extent_state(extent) == EXTENT_ACTIVE && !extent_is_slab(extent));
    check(!extent_is_sampled(extent));
    /* Between guards it has no more pages than it needs, and counts with the size of its class. */
    check(extent_size(extent) >= size || extent_has_fence(extent));
    struct sample sample =
        sample_begin((void *)extent->start, size, &sampler->stack, sampler->taken_thinning);
    sampler_note(sampler);
    extent->slab.sample_stack = sample.stack;
    extent->slab.sample_epoch = sample.epoch;
    extent->slab.sample_thinning = (uint16_t)sample.thinning;
    extent->slab.sample_is_slot = false;
    extent->sample_size = size;
    if (atomic_get(&extent->owner) != OWNER_DIRECT) {
        atomic_set_release(&extent->owner,
                           OWNER_SAMPLED);  /* the rest comes first, as in slab_create */
        pagemap_set(extent->start, extent); /* no list takes it */
    }
    sample_note(sample, size);
}

static void sample_take_slot(struct extent *extent, size_t size, struct sampler *sampler)
{
    sample_take(extent, size, sampler);
    extent->slab.sample_is_slot = true;
}

static NOINLINE void sample_drop(struct extent *extent)
{
    check(extent_is_sampled(extent) && !extent_is_slab(extent));
    struct sample sample = {extent->slab.sample_stack, extent->slab.sample_epoch,
                            extent->slab.sample_thinning};
    sample_end(sample, (void *)extent->start, extent->sample_size);
    extent->sample_size = 0;
    if (atomic_get(&extent->owner) == OWNER_SAMPLED) {
        extent_make_plain(extent);
    }
    check(!extent_is_sampled(extent));
}
