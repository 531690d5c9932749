/* SPDX-License-Identifier: MIT
 *
 * malloc_usable_size is at least what was asked for, every usable byte may be written without
 * touching a neighbour, and malloc_good_size tells it in advance.
 */
#include "../allocator.h"
#include "../test.h"

TEST(usable_bytes_do_not_overlap)
{
    enum { BLOCKS = 64 };
    unsigned char *blocks[BLOCKS];
    for (size_t size = 1; size < 300000; size = size < 200 ? size + 1 : size * 9 / 8) {
        for (int i = 0; i < BLOCKS; i++) {
            blocks[i] = t_malloc(size);
            CHECK(blocks[i] != NULL);
            CHECK_GE(t_malloc_usable_size(blocks[i]), size);
            memset(blocks[i], i + 1, t_malloc_usable_size(blocks[i]));
        }
        for (int i = 0; i < BLOCKS; i++) {
            size_t usable = t_malloc_usable_size(blocks[i]);
            for (size_t k = 0; k < usable; k += k + 16 < usable && size > 4096 ? 16 : 1) {
                CHECK_EQ(blocks[i][k], i + 1);
            }
            t_free(blocks[i]);
        }
    }
}

/* Waste: at most 25 % from the classes on top of the smallest sizes, what is missing to whole pages
 * for large ones; the debug build may add red zones but usable_size does not count them. */
TEST(usable_size_is_not_wasteful)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    for (size_t size = 1; size < 8u << 20; size = size < 3000 ? size + 1 : size * 17 / 16) {
        void *block = t_malloc(size);
        size_t most = size + size / 4 + 16;
        if (size > 32u << 10) {
            size_t whole_pages = (size + page - 1) / page * page;
            most = most > whole_pages ? most : whole_pages;
        }
        CHECK_MSG(t_malloc_usable_size(block) <= most, "size %zu: %zu usable", size,
                  t_malloc_usable_size(block));
        t_free(block);
    }
}

/* A block of whole pages may be that of the next larger class, if one was free. */
TEST(good_size_is_usable_size)
{
    for (size_t size = 0; size < 8u << 20; size = size < 5000 ? size + 1 : size * 33 / 32) {
        void *block = t_malloc(size);
        CHECK(block != NULL);
        size_t good = t_malloc_good_size(size);
        size_t most = size <= 32 * 1024 ? good : good + good / 8;
        size_t usable = t_malloc_usable_size(block);
        CHECK_MSG(usable >= good && usable <= most, "size %zu: good %zu, usable %zu", size, good,
                  usable);
        t_free(block);
    }
}

TEST(good_size_of_good_size_is_itself)
{
    for (size_t size = 1; size < (size_t)1 << 40; size = size * 5 / 4 + 1) {
        size_t good = t_malloc_good_size(size);
        CHECK_GE(good, size);
        CHECK_EQ(t_malloc_good_size(good), good);
    }
}

TEST(good_size_of_impossible_size_is_itself)
{
    static const size_t sizes[] = {SIZE_MAX, SIZE_MAX - 1, SIZE_MAX - 4096, SIZE_MAX / 2 + 1,
                                   SIZE_MAX / 2 + 2};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        CHECK_EQ(t_malloc_good_size(sizes[i]), sizes[i]);
    }
}

TEST(usable_size_of_aligned_blocks)
{
    for (size_t alignment = 16; alignment <= 1u << 20; alignment *= 4) {
        for (size_t size = 1; size < 100000; size = size * 3 + 1) {
            void *block = t_aligned_alloc(alignment, size);
            CHECK_GE(t_malloc_usable_size(block), size);
            memset(block, 0x11, t_malloc_usable_size(block));
            t_free(block);
        }
    }
}
