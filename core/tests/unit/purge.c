/* SPDX-License-Identifier: MIT
 *
 * Giving pages back where the kernel does not do what it says: an emulator that ignores
 * MADV_DONTNEED with success. Purged pages read as zero all the same.
 */
#define MW_TEST_SYSCALLS 1
#include "unit.h"

#include "../real_call.h"

static bool is_ignored;
static unsigned purges;

static long test_syscall(long number, long a, long b, long c, long d, long e, long f)
{
    if (number == SYS_madvise && c == MADV_DONTNEED) {
        purges++;
        if (is_ignored) {
            return 0;
        }
    }
    return real_call(number, a, b, c, d, e, f);
}

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
    is_ignored = true;
    atomic_set(&purge_answer, PURGE_UNKNOWN);
    check_purged_is_zero();
    CHECK_EQ(purges, 1); /* the first one told */
    is_ignored = false;
    atomic_set(&purge_answer, PURGE_UNKNOWN);
}
