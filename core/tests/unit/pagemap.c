/* SPDX-License-Identifier: MIT
 *
 * The page map: every address has an answer, and set words are found again.
 */
#include "unit.h"

TEST(pagemap_knows_nothing_of_strange_addresses)
{
    static const uintptr_t addresses[] = {0,
                                          1,
                                          4096,
                                          (uintptr_t)1 << 40,
                                          ((uintptr_t)1 << 47) - 1,
                                          (uintptr_t)1 << 47,
                                          (uintptr_t)1 << 63,
                                          UINTPTR_MAX};
    int local;
    process_init();
    for (size_t i = 0; i < array_count(addresses); i++) {
        CHECK(pagemap_find((void *)addresses[i]) == pagemap_nothing());
    }
    CHECK(pagemap_find(&local) == pagemap_nothing());
    CHECK(pagemap_find(&pagemap) == pagemap_nothing());
}

TEST(pagemap_finds_what_was_set)
{
    process_init();
    uintptr_t edge = (uintptr_t)7 << PAGEMAP_ROOT_SHIFT; /* a range over the edge of two leaves */
    uintptr_t start = edge - 3 * GRANULE;
    struct extent *extent = meta_alloc(sizeof *extent);
    CHECK(pagemap_cover(start, 6 * GRANULE));
    pagemap_set_range(start, 6 * GRANULE, extent);
    for (size_t at = 0; at < 6 * GRANULE; at += 512) {
        CHECK(pagemap_find((void *)(start + at)) == extent);
    }
    CHECK(pagemap_find((void *)(start - 1)) == pagemap_nothing());
    CHECK(pagemap_find((void *)(start + 6 * GRANULE)) == pagemap_nothing());
    pagemap_set(start + GRANULE, NULL);
    CHECK(pagemap_find((void *)(start + GRANULE)) == pagemap_nothing());
    CHECK(pagemap_find((void *)(start + 2 * GRANULE)) == extent);
}

TEST(pagemap_refuses_what_no_process_has)
{
    CHECK(!pagemap_cover(ADDRESS_LIMIT - GRANULE, 2 * GRANULE));
    CHECK(!pagemap_cover(UINTPTR_MAX - GRANULE + 1, 2 * GRANULE));
}
