/* SPDX-License-Identifier: MIT
 *
 * How often a thread is sampled: no more often than its time allows, and as often as others when it asks for less.
 */
#include "unit.h"

enum { SECOND = 1000000000 };

static struct sampler sampler;

/* A window of a second in which so many times the bytes were asked for that are allowed. */
static unsigned thinning_after(double times)
{
    sampler.window_ns = 5 * (uint64_t)SECOND;
    sampler.window_bytes = (uint64_t)(times * BYTES_A_NS * SECOND);
    sampler.window_samples = SAMPLER_WINDOW;
    sampler_end_window(&sampler, 6 * (uint64_t)SECOND);
    CHECK_EQ(sampler.window_bytes, 0);
    CHECK_EQ(sampler.window_samples, 0);
    CHECK_EQ(sampler.window_ns, 6 * (uint64_t)SECOND);
    return sampler.thinning;
}

TEST(samples_are_thinned_out_by_what_is_asked_for)
{
    CHECK_EQ(thinning_after(0.9), 0);
    CHECK_EQ(thinning_after(1.5), 1);
    CHECK_EQ(thinning_after(2.5), 2);
    CHECK_EQ(thinning_after(1000), 10);
    CHECK_EQ(thinning_after(600), 10); /* 9 would do */
    CHECK_EQ(thinning_after(300), 9);
    CHECK_EQ(thinning_after(0.1), 0);
}

TEST(samples_are_as_often_as_may_be_after_a_pause)
{
    process_init();
    thinning_after(100);
    uint64_t ended_ms = sampler.window_ns / 1000000;
    sampler_follow_clock(&sampler, ended_ms + 1);
    CHECK_EQ(sampler.thinning, 7);
    sampler.window_ns = os_now_ns() - 10 * (uint64_t)SECOND;
    sampler_follow_clock(&sampler, os_now_ns() / 1000000);
    CHECK_EQ(sampler.thinning, 0);
}

/* The next sample of a block of pages would come late. */
TEST(chance_begins_anew_when_samples_become_more_frequent)
{
    atomic_set(&profile.rate_log2, 19);
    sampler_begin(&sampler, true);
    sampler.thinning = 10;
    sampler_draw_large(&sampler);
    sampler.until_large = (uint64_t)1 << 40;
    sampler.thinning = 2;
    CHECK(!sampler_takes(&sampler, 1));
    CHECK_EQ(sampler.large_thinning, 2);
    CHECK_LT(sampler.until_large, (uint64_t)1 << 35);
    sampler.until_large = 99;
    CHECK(sampler_takes(&sampler, 100));
    CHECK_EQ(sampler.taken_thinning, 2);
}

TEST(a_sample_stands_for_more_when_they_are_thinned_out)
{
    atomic_set(&profile.rates[0], 19);
    uint64_t weight = sample_weight(4096, 0, 0);
    for (unsigned thinning = 1; thinning < THINNING_MOST; thinning++) {
        uint64_t thinned = sample_weight(4096, 0, thinning);
        CHECK_LE(thinned, weight << thinning);
        CHECK_GE(thinned, (weight << thinning) / 100 * 99);
    }
}
