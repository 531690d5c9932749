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

/* What a thread finds that begins where another one ended so many ns ago. */
static unsigned thinning_of_next(uint64_t ago_ns)
{
    sampler.thinning = 7;
    sampler.window_samples = 5;
    sampler.window_ns = os_now_ns() - ago_ns;
    sampler_begin(&sampler, true);
    CHECK_EQ(sampler.window_samples, sampler.thinning == 7 ? 5 : 0);
    return sampler.thinning;
}

TEST(threads_that_follow_others_are_thinned_out_with_them)
{
    process_init();
    sampler_begin(&sampler, true);
    unsigned found = 0;
    for (unsigned i = 0; i < 100 && found == 0; i++) { /* others may have the CPU meanwhile */
        found = thinning_of_next(0);
    }
    CHECK_EQ(found, 7);
    CHECK_EQ(thinning_of_next(SECOND), 0);
    atomic_add(&profile.round, 1); /* a reset, perhaps to another rate */
    CHECK_EQ(thinning_of_next(0), 0);
    sampler_begin(&sampler, false);
    CHECK_EQ(thinning_of_next(0), 0);
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

/* --- Heaps ------------------------------------------------------------------------------------ */

/* Our heap, with samples that do not come by themselves. */
static void begin_rare_samples(void)
{
    mw_free(mw_malloc(64));
    atomic_set(&profile.rate_log2, 30);
    profile_set_active(true);
    heap_follow_profile(heap_own);
    CHECK(heap_is_sampling(heap_own));
}

/* Ticks do not draw it anew: what is left of the way to it is what they did not count. */
TEST(a_candidate_comes_where_it_was_drawn)
{
    begin_rare_samples();
    struct candidate *candidate = &heap_own->candidate;
    heap_set_until_tick(heap_own, 511);
    candidate->behind = 1000;
    heap_set_until_tick(heap_own, 511);
    CHECK_EQ(heap_own->until_tick, 511);
    CHECK_EQ(heap_own->tick_rest, 0);
    CHECK_EQ(candidate->behind, 1000 - 512);
    heap_set_until_tick(heap_own, -1); /* counts nothing */
    CHECK_EQ(candidate->behind, 1000 - 512);
    heap_set_until_tick(heap_own, 511);
    CHECK_EQ(heap_own->until_tick, 1000 - 512);
    CHECK_EQ(heap_until_tick(heap_own), 511);
    CHECK_EQ(candidate->behind, CANDIDATE_UNDRAWN);
}

TEST(a_candidate_is_drawn_anew_when_its_chance_is_another)
{
    begin_rare_samples();
    struct candidate *candidate = &heap_own->candidate;
    double points = candidate->points;
    candidate->behind = 5;
    heap_own->sampler.thinning = 4;
    heap_set_until_tick(heap_own, 511);
    CHECK_EQ(candidate->thinning, 4);
    CHECK(candidate->points < points);
    CHECK(heap_own->until_tick != 5);
    candidate->behind = 5;
    heap_own->classes_used |= (uint64_t)1 << (CLASSES - 1);
    heap_set_until_tick(heap_own, 511);
    CHECK_EQ(candidate->largest, CLASSES - 1);
    CHECK(heap_own->until_tick != 5);
}

TEST(a_refill_regards_the_sample_that_its_list_may_reach)
{
    begin_rare_samples();
    unsigned class = class_of(64);
    mw_free(mw_malloc(64));
    heap_own->sample_thinning[class] = 0;
    heap_own->candidate.largest = class;
    heap_set_until_sample(heap_own, class, heap_own->uncut_most);
    CHECK(heap_may_refill_plainly(heap_own, class));
    heap_set_until_sample(heap_own, class, heap_own->uncut_most - 1);
    CHECK(!heap_may_refill_plainly(heap_own, class));
    heap_set_until_sample(heap_own, class, heap_own->uncut_most);
    heap_own->candidate.largest = class - 1;
    CHECK(!heap_may_refill_plainly(heap_own, class));
}

/* The next sample of a class comes behind what lies in the list; each that is freed is one more before it, also where the
 * list has no room and gives slots up. */
TEST(slots_that_a_list_gives_up_leave_their_turns)
{
    enum { BLOCKS = 600, FAR = 100000 };
    static void *blocks[BLOCKS];
    begin_rare_samples();
    unsigned class = class_of(3000);
    for (unsigned i = 0; i < BLOCKS; i++) {
        blocks[i] = mw_malloc(3000);
    }
    heap_set_until_sample(heap_own, class, FAR);
    heap_own->sample_known |= (uint64_t)1 << class;
    uint32_t before = magazine_count(heap_own, class);
    for (unsigned i = 0; i < BLOCKS; i++) {
        mw_free(blocks[i]);
    }
    uint32_t count = magazine_count(heap_own, class);
    CHECK_LT(count, before + BLOCKS);
    CHECK_EQ(heap_until_sample(heap_own, class) + count, FAR + before + BLOCKS);
    magazine_return(heap_own, class);
    CHECK_EQ(heap_until_sample(heap_own, class), FAR + before + BLOCKS);
    CHECK(mw_heap_is_valid());
}

/* Of larger blocks than there were: the tick after one of them was freed sees it. */
TEST(lists_have_the_classes_that_blocks_were_freed_of)
{
    begin_rare_samples();
    mw_free(mw_malloc(20 * os_page_size));
    stack_set_private(heap_own, false);
    stack_set_private(heap_own, true);
    CHECK(heap_own->is_private);
    unsigned end = heap_own->listed_end;
    stack_set_private(heap_own, true);
    CHECK(heap_own->is_private);
    mw_free(mw_malloc(40 * os_page_size));
    stack_set_private(heap_own, true);
    CHECK(!heap_own->is_private);
    stack_set_private(heap_own, true);
    CHECK(heap_own->is_private);
    CHECK_LT(end, heap_own->listed_end);
    CHECK(mw_heap_is_valid());
}
