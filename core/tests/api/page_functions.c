/* SPDX-License-Identifier: MIT
 *
 * valloc and pvalloc give page-aligned blocks; pvalloc rounds the size up to whole pages.
 */
#include <unistd.h>

#include "../allocator.h"
#include "../test.h"

TEST(valloc_is_page_aligned)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    for (size_t size = 1; size < 40 * page; size += size / 3 + 1) {
        void *first = t_valloc(size), *second = t_valloc(size);
        CHECK(first != NULL && second != NULL);
        CHECK_EQ((uintptr_t)first % page, 0);
        CHECK_EQ((uintptr_t)second % page, 0);
        memset(first, 1, size);
        memset(second, 2, size);
        CHECK_EQ(*(char *)first, 1);
        t_free(first);
        t_free(second);
    }
}

TEST(pvalloc_rounds_up_to_pages)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    for (size_t size = 0; size < 20 * page; size += size / 2 + 1) {
        unsigned char *block = t_pvalloc(size);
        size_t rounded = (size + page - 1) / page * page;
        CHECK(block != NULL);
        CHECK_EQ((uintptr_t)block % page, 0);
        CHECK_GE(t_malloc_usable_size(block), rounded);
        memset(block, 0x77, rounded);
        t_free(block);
    }
}
