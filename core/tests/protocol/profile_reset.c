/* SPDX-License-Identifier: MIT
 *
 * A reset of the profile while other threads take samples and give them back: what is shown after it are the
 * samples that its epoch has, whole, and no other.
 */
#include "protocol.h"

enum { SAMPLED_SIZE = 100000 };

static struct call_stack *stack;
static uint32_t before, kept;

static _Atomic uint64_t *shown(unsigned figure)
{
    return &figures_of_epoch(stack, atomic_get(&profile.epoch))[figure];
}

static uint64_t bytes_of_one(void)
{
    uint32_t epoch = atomic_get(&profile.epoch);
    return weighted_bytes(SAMPLED_SIZE, sample_weight(SAMPLED_SIZE, epoch, 0));
}

/* One sample that is there before, and nothing of earlier runs. */
static void sampled(void)
{
    static const uintptr_t frames[] = {1, 2, 3};
    heaps_reset();
    stack = store_get(store_put(frames, array_count(frames)));
    PROPERTY(stack != NULL, "out of memory");
    for (unsigned i = 0; i < STACK_FIGURES_OF_PROFILE; i++) {
        atomic_set(&stack->figures[i], 0);
    }
    atomic_set(&profile.epoch, 0);
    profile_reset(19);
    before = sample_count(stack, SAMPLED_SIZE, 0, &(uint64_t){0});
    explorer_watch(&profile.epoch, "epoch");
    explorer_watch(shown(LIVE_BYTES), "live bytes");
}

static void reset(void)
{
    profile_reset(17);
}

static void take_one(void)
{
    kept = sample_count(stack, SAMPLED_SIZE, 0, &(uint64_t){0});
}

static void take_and_give_back(void)
{
    uint32_t epoch = sample_count(stack, SAMPLED_SIZE, 0, &(uint64_t){0});
    sample_uncount(stack, SAMPLED_SIZE, (struct sample){.epoch = epoch});
}

static void give_back_first(void)
{
    sample_uncount(stack, SAMPLED_SIZE, (struct sample){.epoch = before});
}

static void shows(uint64_t live)
{
    PROPERTY(atomic_get(shown(LIVE_BYTES)) == live, "%lld bytes live, not %lld",
             (long long)atomic_get(shown(LIVE_BYTES)), (long long)live);
}

static void epoch_has_its_samples(void)
{
    shows(kept == atomic_get(&profile.epoch) ? bytes_of_one() : 0);
}

static void nothing_is_live(void)
{
    shows(0);
}

static const struct scenario while_taken = {"reset, take, take and give back",
                                            sampled,
                                            {reset, take_one, take_and_give_back},
                                            epoch_has_its_samples};
static const struct scenario while_given_back = {"reset, give back the first, take and give back",
                                                 sampled,
                                                 {reset, give_back_first, take_and_give_back},
                                                 nothing_is_live};

TEST(reset_shows_the_samples_of_its_epoch)
{
    explore(&while_taken);
    explore(&while_given_back);
}
