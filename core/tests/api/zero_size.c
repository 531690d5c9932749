/* SPDX-License-Identifier: MIT
 *
 * A size of zero gives a block of its own that may be freed, from every entry point.
 */
#include <errno.h>

#include "../allocator.h"
#include "../test.h"

TEST(zero_size_blocks_are_distinct)
{
    void *blocks[1000];
    for (size_t i = 0; i < 1000; i++) {
        blocks[i] = t_malloc(0);
        CHECK(blocks[i] != NULL);
        for (size_t j = 0; j < i; j++) {
            CHECK_MSG(blocks[i] != blocks[j], "blocks %zu and %zu are both %p", i, j, blocks[i]);
        }
    }
    for (size_t i = 0; i < 1000; i++) {
        t_free(blocks[i]);
    }
}

TEST(zero_size_of_calloc)
{
    void *blocks[3] = {t_calloc(0, 0), t_calloc(0, SIZE_MAX), t_calloc(SIZE_MAX, 0)};
    for (int i = 0; i < 3; i++) {
        CHECK(blocks[i] != NULL);
        CHECK(blocks[i] != blocks[(i + 1) % 3]);
    }
    for (int i = 0; i < 3; i++) {
        t_free(blocks[i]);
    }
}

TEST(zero_size_of_reallocarray)
{
    void *first = t_reallocarray(NULL, 0, 8), *second = t_reallocarray(NULL, 8, 0);
    CHECK(first != NULL && second != NULL && first != second);
    t_free(first);
    t_free(second);
}

TEST(zero_size_of_aligned_functions)
{
    for (size_t alignment = 8; alignment <= 65536; alignment *= 2) {
        void *blocks[4] = {t_aligned_alloc(alignment, 0), t_memalign(alignment, 0), NULL,
                           t_valloc(0)};
        CHECK_EQ(t_posix_memalign(&blocks[2], alignment, 0), 0);
        for (int i = 0; i < 4; i++) {
            CHECK(blocks[i] != NULL);
            CHECK(blocks[i] != blocks[(i + 1) % 4]);
            CHECK_EQ((uintptr_t)blocks[i] % (i == 3 ? 4096 : alignment), 0);
            CHECK_LE(t_malloc_usable_size(blocks[i]), (size_t)4096 * 16);
        }
        for (int i = 0; i < 4; i++) {
            t_free(blocks[i]);
        }
    }
}

TEST(free_of_null_is_ignored)
{
    errno = 77;
    t_free(NULL);
    t_cfree(NULL);
    t_free_sized(NULL, 8);
    t_free_aligned_sized(NULL, 64, 8);
    CHECK_EQ(errno, 77);
}

TEST(usable_size_of_null_is_zero)
{
    CHECK_EQ(t_malloc_usable_size(NULL), 0);
}
