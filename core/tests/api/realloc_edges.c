/* SPDX-License-Identifier: MIT
 *
 * realloc with NULL is malloc; realloc to 0 frees and returns NULL, as in glibc.
 */
#include <errno.h>

#include "../allocator.h"
#include "../test.h"

TEST(realloc_of_null_is_malloc)
{
    for (size_t size = 0; size < 100000; size = size * 3 + 1) {
        void *block = t_realloc(NULL, size);
        CHECK(block != NULL);
        memset(block, 1, size);
        t_free(block);
    }
}

TEST(realloc_to_zero_frees)
{
    static const size_t sizes[] = {0, 1, 64, 5000, 100000, 4u << 20, 64u << 20};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        void *block = t_malloc(sizes[i]);
        CHECK(block != NULL);
        CHECK(t_realloc(block, 0) == NULL);
    }
}

/* If realloc to 0 did not free, this would need 4 GiB. */
TEST(realloc_to_zero_gives_memory_back)
{
    for (int i = 0; i < 4000; i++) {
        unsigned char *block = t_malloc(1u << 20);
        CHECK(block != NULL);
        block[0] = block[(1u << 20) - 1] = 1;
        CHECK(t_realloc(block, 0) == NULL);
    }
    struct mw_mallinfo2 info = t_mallinfo2();
    CHECK_LT(info.uordblks + info.hblkhd, 64u << 20);
}

TEST(realloc_to_same_size_keeps_contents)
{
    for (size_t size = 1; size < 3u << 20; size = size * 2 + 1) {
        unsigned char *block = t_malloc(size);
        memset(block, 0x3c, size);
        for (int i = 0; i < 3; i++) {
            block = t_realloc(block, size);
            CHECK(block != NULL);
        }
        CHECK_EQ(block[0], 0x3c);
        CHECK_EQ(block[size - 1], 0x3c);
        t_free(block);
    }
}

TEST(reallocarray_to_zero_frees)
{
    void *block = t_malloc(100);
    CHECK(t_reallocarray(block, 0, 10) == NULL);
    block = t_malloc(100);
    CHECK(t_reallocarray(block, 10, 0) == NULL);
}
