/* SPDX-License-Identifier: MIT
 *
 * Samples: a few of the program's blocks, and who asked for them. Every byte has the same chance of
 * 1 / 2^lg_prof_sample to be the one that makes its block a sample, so the distances between samples
 * have an exponential distribution. That has no memory: who begins to count anew loses nothing.
 *
 * A sample of `size` bytes stands for 1 / (1 - exp(-size / rate)) blocks like it. That sum is kept by
 * call stack, for the blocks that the program holds and for all that it ever got.
 *
 * A thread that asks for so much that samples would cost it too much time is sampled less often for a while: of
 * what would be samples about one in 2^thinning is one, and stands for so many more. How far samples are thinned
 * out when chance is asked for a block does not depend on the answer, so the sums stay right.
 *
 * A sampled block is an extent of its own, whose owner is OWNER_SAMPLED: so free comes to its slow side
 * by the comparison that it makes anyway. That of an arena which the program names keeps OWNER_DIRECT, by
 * which free comes there too, and has a sample_size. A tracked block (slots/track.h) stays what it is, for
 * free looks at what is known of it anyway.
 */
#ifndef MALLOW_SAMPLE_H
#define MALLOW_SAMPLE_H

#include "../memory/extent.h"
#include "stack_store.h"
#include "unwind.h"

/* Whether blocks can be samples. A libc has no use for profiles. */
#define PROFILE_IS_POSSIBLE (!MW_IN_LIBC)

/* Whether what the heaps hand out can be. Under tracked blocks it cannot: it has red zones, and stays with the
 * quarantine for a while, which would count as held. */
#define HEAPS_SAMPLE (PROFILE_IS_POSSIBLE && !MW_TRACK)

/* The figures of a call stack, each for two epochs. Blocks are counted in 1/1024. */
enum { LIVE_BLOCKS, LIVE_BYTES, ALL_BLOCKS, ALL_BYTES, SAMPLE_FIGURES };
#define BLOCK_UNIT 1024u
static_assert(2 * SAMPLE_FIGURES == STACK_FIGURES_OF_PROFILE, "each has its place");

/* A sample is counted with the figures of its own epoch, which another has after two resets: so whoever read
 * the epoch just before a reset, or was interrupted by it, changes what nobody shows any longer. */
ALWAYS_INLINE _Atomic uint64_t *figures_of_epoch(struct call_stack *stack, uint32_t epoch)
{
    return &stack->figures[epoch % 2 * SAMPLE_FIGURES];
}

/* What a thread needs to choose its samples. */
struct sampler {
    uint64_t random;
    uint64_t until_large; /* bytes of blocks of pages until the next sample */
    struct known_stack stack;
    uint64_t window_ns;      /* when the following two began at 0 */
    uint64_t window_bytes;   /* what the samples since then stand for */
    uint32_t window_samples; /* less than SAMPLER_WINDOW */
    uint32_t round;          /* profile.round when it began; another one now: it begins anew */
    bool takes_profile;      /* it chooses samples; without, guarded blocks alone */
    uint8_t thinning;        /* of samples that are chosen now */
    uint8_t large_thinning;  /* by which until_large was chosen */
    uint8_t taken_thinning;  /* by which the sample was chosen that is being taken */
};

/* The state of profiling; all of it may be changed while the program runs. */
static struct {
    _Atomic bool is_enabled;    /* the option prof, from the start on */
    _Atomic bool is_active;     /* samples are taken */
    _Atomic bool starts_active; /* in threads to come */
    _Atomic bool dumps_at_peak;
    _Atomic bool is_dumping;    /* a thread writes a profile */
    _Atomic uint32_t rate_log2; /* bytes between samples */
    _Atomic uint32_t round;     /* grows with each change that samplers follow */
    _Atomic uint32_t epoch;     /* grows with prof.reset: what was sampled before is forgotten */
    _Atomic uint32_t rates[2];  /* rate_log2 of the epoch, and of the one before or to come */
    _Atomic uint64_t
        until_interval;    /* bytes, to count down until the next dump by lg_prof_interval */
    _Atomic uint64_t lost; /* samples without memory for their call stack */
    double
        guard_rate; /* const after start; guarded blocks, as `size / rate` is for samples; 0: none */
} profile;

static void profile_load(void);

/* Whether threads are to take samples: somebody profiles, or listens to the probes. */
static bool profile_is_wanted(void);

static void profile_set_active(bool is_active);

/* After so many allocated bytes a profile is written; 0: never for that. */
static uint64_t profile_interval_bytes(void);

/* Forgets all samples so far, and sets the rate. */
static void profile_reset(unsigned rate_log2);

/* About one block in so many is to be guarded: slots/guarded.h. Once, before the first sampler. */
static void profile_guard_every(uint64_t blocks);

static void sampler_begin(struct sampler *sampler, bool takes_profile);

/* The mean distance of samples that are thinned out so far. */
static double profile_distance(unsigned thinning);
static uint64_t profile_distance_bytes(unsigned thinning);

/* How many samples a block stands for on average, where every byte may be one. If a slot may be guarded too,
 * profile.guard_rate is added to that. */
static double sampler_points(const struct sampler *sampler, size_t size, unsigned thinning);

/* How many blocks with so many points come before the next one that has one; INT32_MAX: none is near. */
static uint32_t sampler_turns(struct sampler *sampler, double points);

/* The same; `most` if there are more. */
static uint32_t sampler_turns_up_to(struct sampler *sampler, double points, uint32_t most);

/* Whether a thing that happens with one chance happens, where another one with a chance no less great did: both by
 * their points. */
static bool sampler_narrows(struct sampler *sampler, double points, double of_points);

/* Whether a slot that is a sample or guarded is guarded. Each block has its chance to be a sample, whatever the chance
 * to be guarded is: so a profile shows the same with and without. */
static bool sampler_takes_guard(struct sampler *sampler, size_t size, unsigned thinning);

/* Heads or tails. */
static bool sampler_coin(struct sampler *sampler);

/* Whether a block of pages is a sample. */
static bool sampler_takes(struct sampler *sampler, size_t size);

/* At a tick: a thread that asks for less now is sampled as often as others. */
static void sampler_follow_clock(struct sampler *sampler, uint64_t now_ms);

/* Makes an active extent, which is no slab, a sampled block of `size` bytes, by the stack of the calling
 * thread. */
static void sample_take(struct extent *extent, size_t size, struct sampler *sampler);

/* The same in the place of a slot of `size` bytes. realloc does with it what it does with a slot: were a sample copied
 * where others stay, it would be one no longer, and the sums too small. */
static void sample_take_slot(struct extent *extent, size_t size, struct sampler *sampler);

/* The program gives it back: it becomes a plain extent, or a direct one again. */
static void sample_drop(struct extent *extent);

/* A sample that is no extent of its own, and what whoever keeps it has to remember: the call stack's number, 0 if
 * there is none, the epoch, and how far samples were thinned out. */
struct sample {
    uint32_t stack;
    uint32_t epoch;
    uint32_t thinning;
};
static struct sample sample_begin(const void *block, size_t size, struct known_stack *known,
                                  uint32_t thinning);
static void sample_end(struct sample sample, const void *block, size_t size);

/* Whether the call stack that it has is counted, so that a dump may be due; with no lock held. */
static void sample_note(struct sample sample, size_t size);

ALWAYS_INLINE bool extent_is_sampled(struct extent *extent)
{
    if (!PROFILE_IS_POSSIBLE) {
        return false;
    }
    struct heap *owner = atomic_get(&extent->owner);
    return owner == OWNER_SAMPLED ||
           (owner == OWNER_DIRECT && !extent_is_slab(extent) && extent->sample_size != 0);
}

/* The bytes of a large block, all of them; of a sampled one those of its class. */
ALWAYS_INLINE size_t large_block_size(struct extent *extent)
{
    return unlikely(extent_is_sampled(extent)) ? extent->sample_size : extent_size(extent);
}

/* Tells the unwinder which functions are Mallow's own, before the first sample: insight/profile.c. */
static void (*const profile_note_own)(void);

/* Writes a profile if that is due by what was allocated: insight/profile.c. */
static void (*const profile_note_allocated)(uint64_t bytes);

/* 1 - exp(-x), for x >= 0, and -ln(x), for 0 < x <= 1. */
static double share_until(double x);
static double minus_log(double x);

/* A probe that a tracer can be put on; nothing happens while nobody listens. */
extern uint16_t mallow_probe_alloc_listeners __attribute__((visibility("hidden")));
extern uint16_t mallow_probe_free_listeners __attribute__((visibility("hidden")));

#endif
