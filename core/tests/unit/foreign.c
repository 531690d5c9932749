/* SPDX-License-Identifier: MIT
 *
 * Memory of others is looked for once, not at each free of it.
 */
#include "unit.h"

#include <sys/mman.h>

TEST(foreign_pages_are_remembered_until_memory_is_mapped)
{
    enum { SIZE = 4096 };
    mw_free(mw_malloc(100));
    char *foreign = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(foreign != MAP_FAILED);
    CHECK(!pagemap_knows_foreign(foreign));
    CHECK(extent_around(foreign + 16) == NULL);
    CHECK(pagemap_knows_foreign(foreign + 32));
    CHECK(!pagemap_knows_foreign(foreign + SIZE));

    char *huge = mw_malloc(100 * MiB);
    CHECK(huge != NULL);
    CHECK(!pagemap_knows_foreign(foreign));
    CHECK(extent_around(foreign) == NULL);
    CHECK(pagemap_knows_foreign(foreign));
}

TEST(our_own_memory_is_never_taken_for_foreign)
{
    char *blocks[] = {mw_malloc(100 * MiB), mw_malloc(1 * MiB), mw_malloc(100 * KiB),
                      mw_malloc(2000)};
    for (size_t i = 0; i < array_count(blocks); i++) {
        size_t size = mw_malloc_usable_size(blocks[i]);
        for (size_t at = 0; at < size; at += size / 7) {
            CHECK(extent_around(blocks[i] + at) != NULL);
            CHECK(!pagemap_knows_foreign(blocks[i] + at));
        }
    }
}
