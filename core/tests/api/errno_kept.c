/* SPDX-License-Identifier: MIT
 *
 * free keeps errno whatever the block, and a successful allocation never sets it to 0.
 */
#include <errno.h>

#include "../allocator.h"
#include "../test.h"

enum { MARK = 4242 };

static const size_t sizes[] = {0, 1, 16, 500, 4096, 30000, 70000, 1u << 20, 9u << 20, 80u << 20};
enum { COUNT = sizeof sizes / sizeof sizes[0] };

TEST(free_keeps_errno)
{
    for (int i = 0; i < COUNT; i++) {
        for (int round = 0; round < 20; round++) {
            void *block = t_malloc(sizes[i]);
            CHECK(block != NULL);
            errno = MARK;
            t_free(block);
            CHECK_EQ(errno, MARK);
        }
    }
}

TEST(all_kinds_of_free_keep_errno)
{
    for (int i = 0; i < COUNT; i++) {
        void *plain = t_malloc(sizes[i]), *sized = t_malloc(sizes[i]);
        void *aligned = t_aligned_alloc(64, sizes[i]);
        errno = MARK;
        t_cfree(plain);
        CHECK_EQ(errno, MARK);
        t_free_sized(sized, sizes[i]);
        CHECK_EQ(errno, MARK);
        t_free_aligned_sized(aligned, 64, sizes[i]);
        CHECK_EQ(errno, MARK);
    }
}

/* Many frees in a row, so that slabs and regions are given back on the way. */
TEST(free_of_many_keeps_errno)
{
    enum { BLOCKS = 20000 };
    static void *blocks[BLOCKS];
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < BLOCKS; i++) {
            blocks[i] = t_malloc((size_t)(i * 37) % 9000);
            CHECK(blocks[i] != NULL);
        }
        errno = MARK;
        for (int i = 0; i < BLOCKS; i++) {
            t_free(blocks[i]);
            CHECK_EQ(errno, MARK);
        }
    }
}

TEST(success_leaves_errno_nonzero)
{
    for (int i = 0; i < COUNT; i++) {
        errno = MARK;
        void *blocks[4] = {t_malloc(sizes[i]), t_calloc(1, sizes[i]),
                           t_aligned_alloc(256, sizes[i]), NULL};
        CHECK_EQ(t_posix_memalign(&blocks[3], 32, sizes[i]), 0);
        CHECK_NE(errno, 0);
        for (int k = 0; k < 4; k++) {
            CHECK(blocks[k] != NULL);
            t_free(blocks[k]);
        }
    }
}

TEST(posix_memalign_keeps_errno)
{
    for (int i = 0; i < COUNT; i++) {
        void *block = NULL;
        errno = MARK;
        CHECK_EQ(t_posix_memalign(&block, 128, sizes[i]), 0);
        CHECK_EQ(errno, MARK);
        CHECK_EQ(t_posix_memalign(&block, 3, sizes[i]), EINVAL);
        CHECK_EQ(errno, MARK);
        t_free(block);
    }
}
