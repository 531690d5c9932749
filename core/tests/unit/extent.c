/* SPDX-License-Identifier: MIT
 *
 * Sets of free extents: a good fit, the oldest first.
 */
#include "unit.h"

enum { EXTENTS = 400 };

static struct extent extents[EXTENTS];

static void fill_set(struct extent_set *set, uint64_t *random)
{
    process_init();
    *set = (struct extent_set){0};
    for (size_t i = 0; i < EXTENTS; i++) {
        extents[i].start = ((uintptr_t)1 << 40) + (i << 30);
        atomic_set(&extents[i].pages, (uint32_t)(1 + test_random(random) % 100));
        extent_set_insert(set, &extents[i]);
    }
}

static struct extent *best_fit(const bool *is_in, size_t pages)
{
    struct extent *best = NULL;
    for (size_t i = 0; i < EXTENTS; i++) {
        if (is_in[i] && extent_pages(&extents[i]) >= pages &&
            (best == NULL || extent_pages(&extents[i]) < extent_pages(best))) {
            best = &extents[i];
        }
    }
    return best;
}

/* A fit is found in the best one's bin, and it is missed only in the bin of the size itself. */
static bool is_good_fit(const struct extent_set *set, struct extent *found, struct extent *best,
                        size_t pages)
{
    if (best == NULL) {
        return found == NULL;
    }
    unsigned bin = extent_bin(extent_pages(best));
    if (found == NULL) {
        return pages > 8 && bin == extent_bin(pages);
    }
    bool is_in_set = (atomic_get(&set->filled) >> extent_bin(extent_pages(found)) & 1) != 0;
    bool is_best_bin = extent_bin(extent_pages(found)) == bin;
    return is_in_set && extent_pages(found) >= pages &&
           (is_best_bin || (pages > 8 && bin == extent_bin(pages)));
}

TEST(extent_set_finds_a_good_fit)
{
    struct extent_set set;
    bool is_in[EXTENTS];
    uint64_t random = 17;
    fill_set(&set, &random);
    memset(is_in, true, sizeof is_in);
    size_t missed = 0;
    for (int round = 0; round < 20000; round++) {
        size_t pages = 1 + test_random(&random) % 110;
        struct extent *found = extent_set_fit(&set, pages);
        struct extent *best = best_fit(is_in, pages);
        CHECK(is_good_fit(&set, found, best, pages));
        CHECK(best == NULL || extent_set_may_fit(&set, pages));
        missed += found == NULL && best != NULL;
        size_t i = test_random(&random) % EXTENTS;
        if (is_in[i]) {
            extent_set_remove(&set, &extents[i]);
        } else {
            atomic_set(&extents[i].pages, (uint32_t)(1 + test_random(&random) % 100));
            extent_set_insert(&set, &extents[i]);
        }
        is_in[i] = !is_in[i];
    }
    CHECK(missed < 20000 / 20);
}

TEST(extent_bins_are_in_order)
{
    CHECK_EQ(extent_bin(1), 0);
    CHECK_EQ(extent_bin(8), 7);
    CHECK_EQ(extent_bin(9), 8);
    CHECK_EQ(extent_bin(10), 8);
    CHECK_EQ(extent_bin(16), 11);
    CHECK_EQ(extent_bin(17), 12);
    for (size_t pages = 1; pages < 400000; pages++) {
        unsigned step = extent_bin(pages + 1) - extent_bin(pages);
        CHECK(step <= 1);
    }
    CHECK_EQ(extent_bin(UINT32_MAX), EXTENT_BINS - 1);
}

TEST(extent_set_counts_and_keeps_age)
{
    struct extent_set set;
    uint64_t random = 18;
    fill_set(&set, &random);
    size_t pages = 0;
    for (size_t i = 0; i < EXTENTS; i++) {
        pages += extent_pages(&extents[i]);
    }
    CHECK_EQ(set.count, EXTENTS);
    CHECK_EQ(set.pages, pages);
    for (size_t i = 0; i < EXTENTS; i++) {
        CHECK(extent_set_oldest(&set) == &extents[i]);
        extent_set_remove(&set, &extents[i]);
    }
    CHECK_EQ(set.pages, 0);
    CHECK(extent_set_fit(&set, 1) == NULL);
    CHECK(extent_set_oldest(&set) == NULL);
}
