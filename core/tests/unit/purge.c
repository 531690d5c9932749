/* SPDX-License-Identifier: MIT
 *
 * Giving pages back where the kernel does not do what it says: an emulator or a filter that ignores
 * MADV_DONTNEED with success. Purged pages read as zero all the same.
 */
#include "unit.h"

static void check_purged_is_zero(void)
{
    size_t size = 4 * os_page_size;
    char *pages = os_map(NULL, size);
    CHECK(pages != NULL);
    for (int round = 0; round < 3; round++) {
        memset(pages, 0x77, size);
        CHECK(os_purge(pages, size));
        for (size_t i = 0; i < size; i++) {
            CHECK_EQ(pages[i], 0);
        }
    }
    CHECK(os_unmap(pages, size));
}

TEST(purged_pages_are_zero)
{
    process_init();
    purges = 0;
    atomic_set(&purge_answer, PURGE_UNKNOWN);
    check_purged_is_zero();
    CHECK_EQ(purges, 3);
    CHECK_EQ(atomic_get(&purge_answer), PURGE_CLEARS);
}

TEST(purged_pages_are_zero_where_the_call_is_ignored)
{
    process_init();
    purges = 0;
    purges_ignored = true;
    atomic_set(&purge_answer, PURGE_UNKNOWN);
    check_purged_is_zero();
    CHECK_EQ(purges, 1); /* the first one told */
    purges_ignored = false;
    atomic_set(&purge_answer, PURGE_UNKNOWN);
}

TEST(purged_pages_are_zero_where_a_filter_ignores_the_call_from_now_on)
{
    process_init();
    atomic_set(&purge_answer, PURGE_UNKNOWN);
    check_purged_is_zero();
    CHECK_EQ(atomic_get(&purge_answer), PURGE_CLEARS);
    os_note_confined();
    check_purged_is_zero();
    CHECK_EQ(atomic_get(&purge_answer), PURGE_CLEARS);
    purges = 0;
    purges_ignored = true;
    check_purged_is_zero();
    CHECK_EQ(purges, 1);
}
