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
