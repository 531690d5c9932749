/* SPDX-License-Identifier: MIT
 *
 * The decay curve: all free pages may stay at first, none after the time is over, never more in between.
 */
#include "unit.h"

TEST(decay_falls_to_nothing)
{
    struct decay decay = {0};
    enum { TOTAL_MS = 10000, PAGES = 100000 };
    size_t before = PAGES, pages = PAGES;
    for (uint64_t now = 0; now <= TOTAL_MS * 2; now += 50) {
        size_t limit = decay_limit(&decay, now, TOTAL_MS, pages);
        if (limit == SIZE_MAX) {
            continue;
        }
        pages = pages < limit ? pages : limit;
        CHECK_LE(pages, before);
        before = pages;
        if (now == TOTAL_MS / 10 / 50 * 50) {
            CHECK_GE(pages, PAGES / 2); /* smooth: most is still there after a tenth */
        }
    }
    CHECK_EQ(pages, 0);
}

/* What is free at the first look has not been free for long. */
TEST(decay_begins_with_the_first_look)
{
    struct decay decay = {0};
    enum { TOTAL_MS = 1000, PAGES = 1000, BEGIN_MS = 5000000 };
    CHECK_EQ(decay_limit(&decay, BEGIN_MS, TOTAL_MS, PAGES), SIZE_MAX);
    CHECK_GE(decay_limit(&decay, BEGIN_MS + 100, TOTAL_MS, PAGES), PAGES / 2);
    CHECK_EQ(decay_limit(&decay, BEGIN_MS + 100 + 2 * TOTAL_MS, TOTAL_MS, PAGES), 0);
}

/* Lets `pages` be free from now on for a while, and returns how many stay. */
static size_t rest_for(struct decay *decay, uint64_t *now, uint64_t ms, long total, size_t pages)
{
    for (uint64_t end = *now + ms; *now < end; *now += 10) {
        size_t limit = decay_limit(decay, *now, total, pages);
        size_t stay = pages < limit ? pages : limit;
        decay_note_given_back(decay, pages - stay);
        pages = stay;
    }
    return pages;
}

/* For half of the time nothing goes back, in the other half more and more does. */
TEST(decay_keeps_all_for_half_of_its_time)
{
    struct decay decay = {0};
    enum { TOTAL_MS = 1000, PAGES = 10000 };
    uint64_t now = clock_look();
    rest_for(&decay, &now, 100, TOTAL_MS, 0);
    CHECK_EQ(rest_for(&decay, &now, TOTAL_MS / 2 - 50, TOTAL_MS, PAGES), PAGES);
    size_t later = rest_for(&decay, &now, TOTAL_MS / 4, TOTAL_MS, PAGES);
    CHECK_LE(later, PAGES * 3 / 4);
    CHECK_GE(later, PAGES / 4);
}

/* Pages that are used and freed in each step are young; the others go all the same. */
TEST(decay_is_of_what_is_not_used)
{
    struct decay decay = {0};
    enum { TOTAL_MS = 1000, BUSY = 4096, IDLE = 76800 };
    uint64_t now = clock_look();
    rest_for(&decay, &now, 100, TOTAL_MS, 0);
    size_t pages = rest_for(&decay, &now, 50, TOTAL_MS, IDLE + BUSY);
    CHECK_EQ(pages, IDLE + BUSY);
    for (int i = 0; i < 2 * TOTAL_MS / 20; i++) {
        decay_note_left(&decay, pages - BUSY);
        pages = rest_for(&decay, &now, 20, TOTAL_MS, pages);
        CHECK_GE(pages, BUSY);
        CHECK(i != TOTAL_MS / 4 / 20 || pages > IDLE);
    }
    CHECK_LE(pages, BUSY + BUSY / 8);
}

/* What was used and is free again has not been free for long, though nobody looked while it was used. */
TEST(decay_begins_anew_for_what_was_used_between_looks)
{
    struct decay decay = {0};
    enum { TOTAL_MS = 1000, PAGES = 10000 };
    uint64_t now = clock_look();
    rest_for(&decay, &now, 100, TOTAL_MS, 0);
    CHECK_EQ(rest_for(&decay, &now, TOTAL_MS / 2 - 50, TOTAL_MS, PAGES), PAGES);
    decay_note_left(&decay, PAGES / 4);
    size_t pages = rest_for(&decay, &now, TOTAL_MS / 4, TOTAL_MS, PAGES);
    CHECK_GE(pages, PAGES * 3 / 4);
    CHECK(pages < PAGES); /* of the quarter that was not used some has gone */
    CHECK_LE(rest_for(&decay, &now, TOTAL_MS / 2, TOTAL_MS, pages), PAGES / 2);
    CHECK_EQ(rest_for(&decay, &now, TOTAL_MS, TOTAL_MS, PAGES / 2), 0);
}

/* A burst each 800 ms with a time of 1 s: at first most goes back in between and comes again, soon all stays.
 * Whatever was learnt, nothing stays when the time is over. */
TEST(decay_becomes_patient_where_pages_come_again)
{
    struct decay decay = {0};
    enum { TOTAL_MS = 1000, PAGES = 10000, BURSTS = 12 };
    size_t stayed[BURSTS];
    uint64_t now = clock_look();
    rest_for(&decay, &now, 100, TOTAL_MS, 0);
    for (int i = 0; i < BURSTS; i++) {
        uint32_t freed = clock_stamp();
        stayed[i] = rest_for(&decay, &now, 800, TOTAL_MS, PAGES);
        decay_note_refault(&decay, PAGES - stayed[i], freed);
        rest_for(&decay, &now, 50, TOTAL_MS, 0);
        CHECK_LE(atomic_get(&decay.patience), PATIENCE_MOST);
    }
    CHECK_LE(stayed[0], PAGES / 2);
    CHECK_EQ(stayed[BURSTS - 1], PAGES);
    CHECK_EQ(atomic_get(&decay.patience), PATIENCE_MOST);
    CHECK_EQ(rest_for(&decay, &now, TOTAL_MS + 2 * TOTAL_MS / DECAY_STEPS, TOTAL_MS, PAGES), 0);

    /* Nothing comes again any more. */
    rest_for(&decay, &now, 4 * CALM_TIMES * TOTAL_MS, TOTAL_MS, 0);
    CHECK_EQ(atomic_get(&decay.patience), 0);
    CHECK_LE(rest_for(&decay, &now, 800, TOTAL_MS, PAGES), PAGES / 2);
}

/* Pages that come again when their time would have been over, or few of many, are no reason. */
TEST(decay_stays_impatient_where_few_pages_come_again)
{
    struct decay decay = {0};
    enum { TOTAL_MS = 1000, PAGES = 10000 };
    uint64_t now = clock_look();
    for (int i = 0; i < 10; i++) {
        CHECK_EQ(rest_for(&decay, &now, 2 * TOTAL_MS, TOTAL_MS, PAGES), 0);
        decay_note_refault(&decay, PAGES, clock_stamp() - TOTAL_MS);
        decay_note_refault(&decay, PAGES / 100, clock_stamp());
    }
    CHECK_EQ(atomic_get(&decay.patience), 0);
}

TEST(decay_special_times)
{
    struct decay decay = {0};
    CHECK_EQ(decay_limit(&decay, 5, -1, 100), SIZE_MAX);
    CHECK_EQ(decay_limit(&decay, 5, 0, 100), 0);
}

TEST(decay_after_a_long_rest)
{
    struct decay decay = {0};
    decay_limit(&decay, 1000, 1000, 0);
    CHECK_LE(decay_limit(&decay, 1000000, 1000, 5000), 5000 / 8);
}

TEST(decay_of_tiny_times)
{
    for (long total = 1; total < 40; total++) {
        struct decay decay = {0};
        size_t pages = 1000;
        for (uint64_t now = 0; now < 200; now++) {
            size_t limit = decay_limit(&decay, now, total, pages);
            pages = pages < limit ? pages : limit;
        }
        CHECK_MSG(pages == 0, "%zu pages stay with a decay time of %ld ms", pages, total);
    }
}
