/* SPDX-License-Identifier: MIT
 *
 * Blocks pass freely between the names: malloc to mw_free, mw_malloc to free, every allocating
 * function to realloc, free and free_sized.
 */
#include "../allocator.h"
#include "../test.h"

TEST(blocks_pass_between_libc_and_mw_names)
{
    for (size_t size = 1; size < 3u << 20; size = size * 3 + 1) {
        mw_free(t_malloc(size));
        t_free(mw_malloc(size));
        t_free(mw_aligned_alloc(256, size));
        mw_free(t_calloc(3, size));
        void *block = mw_realloc(t_malloc(size), size * 2);
        CHECK(block != NULL);
        CHECK_EQ(t_malloc_usable_size(block), mw_malloc_usable_size(block));
        t_free(block);
    }
}

TEST(realloc_takes_blocks_of_every_function)
{
    void *out = NULL;
    CHECK_EQ(t_posix_memalign(&out, 64, 100), 0);
    void *blocks[] = {out,
                      t_memalign(512, 100),
                      t_valloc(100),
                      t_pvalloc(100),
                      t_aligned_alloc(4096, 100),
                      t_calloc(10, 10),
                      t_reallocarray(NULL, 10, 10)};
    for (size_t i = 0; i < sizeof blocks / sizeof blocks[0]; i++) {
        memset(blocks[i], (int)i + 1, 100);
        unsigned char *moved = t_realloc(blocks[i], 100000);
        CHECK(moved != NULL);
        CHECK_EQ(moved[0], i + 1);
        CHECK_EQ(moved[99], i + 1);
        moved = t_realloc(moved, 50);
        CHECK_EQ(moved[49], i + 1);
        t_free(moved);
    }
}
