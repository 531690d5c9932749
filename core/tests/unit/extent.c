/* SPDX-License-Identifier: MIT
 *
 * Sets of free extents: the best fit at the lowest address, the oldest first.
 */
#include "unit.h"

enum { COUNT = 400 };

static struct extent extents[COUNT];

static void fill(struct extent_set *set, uint64_t *random)
{
    process_init();
    extent_set_init(set);
    for (size_t i = 0; i < COUNT; i++) {
        extents[i].start = ((uintptr_t)1 << 40) + (i << 30);
        atomic_set(&extents[i].pages, (uint32_t)(1 + test_random(random) % 100));
        extent_set_insert(set, &extents[i]);
    }
}

/* What extent_set_fit promises, by looking at all. */
static struct extent *slow_fit(const bool *is_in, size_t pages)
{
    struct extent *best = NULL;
    for (size_t i = 0; i < COUNT; i++) {
        if (is_in[i] && extent_pages(&extents[i]) >= pages &&
            (best == NULL || extent_pages(&extents[i]) < extent_pages(best))) {
            best = &extents[i];
        }
    }
    return best;
}

TEST(extent_set_finds_the_best_fit)
{
    struct extent_set set;
    bool is_in[COUNT];
    uint64_t random = 17;
    fill(&set, &random);
    memset(is_in, true, sizeof is_in);
    for (int round = 0; round < 20000; round++) {
        size_t pages = 1 + test_random(&random) % 110;
        struct extent *found = extent_set_fit(&set, pages);
        CHECK(found == slow_fit(is_in, pages));
        size_t i = test_random(&random) % COUNT;
        if (is_in[i]) {
            extent_set_remove(&set, &extents[i]);
        } else {
            atomic_set(&extents[i].pages, (uint32_t)(1 + test_random(&random) % 100));
            extent_set_insert(&set, &extents[i]);
        }
        is_in[i] = !is_in[i];
    }
}

TEST(extent_set_counts_and_keeps_age)
{
    struct extent_set set;
    uint64_t random = 18;
    fill(&set, &random);
    size_t pages = 0;
    for (size_t i = 0; i < COUNT; i++) {
        pages += extent_pages(&extents[i]);
    }
    CHECK_EQ(set.count, COUNT);
    CHECK_EQ(set.pages, pages);
    for (size_t i = 0; i < COUNT; i++) {
        CHECK(extent_set_oldest(&set) == &extents[i]);
        extent_set_remove(&set, &extents[i]);
    }
    CHECK_EQ(set.pages, 0);
    CHECK(extent_set_fit(&set, 1) == NULL);
    CHECK(extent_set_oldest(&set) == NULL);
}
