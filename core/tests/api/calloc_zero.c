/* SPDX-License-Identifier: MIT
 *
 * calloc gives zeros, also where dirty memory is used again.
 */
#include "../allocator.h"
#include "../test.h"

static void check_zero(const unsigned char *block, size_t size)
{
    CHECK(block != NULL);
    /* Each byte is like the next: one by one they are only gone through where one is to be named. */
    if (block[0] == 0 && memcmp(block, block + 1, size - 1) == 0) {
        return;
    }
    for (size_t i = 0; i < size; i++) {
        CHECK_MSG(block[i] == 0, "byte %zu of %zu is %#x", i, size, block[i]);
    }
}

TEST(calloc_is_zero_when_fresh)
{
    for (size_t size = 1; size < 40u << 20; size = size * 5 / 4 + 1) {
        unsigned char *block = t_calloc(1, size);
        check_zero(block, size);
        t_free(block);
    }
}

TEST(calloc_is_zero_after_dirty_reuse)
{
    for (size_t size = 1; size < 12u << 20; size = size * 5 / 4 + 1) {
        enum { BLOCKS = 5 };
        unsigned char *blocks[BLOCKS];
        for (int round = 0; round < 3; round++) {
            for (int i = 0; i < BLOCKS; i++) {
                blocks[i] = t_malloc(size);
                CHECK(blocks[i] != NULL);
                memset(blocks[i], 0xff, t_malloc_usable_size(blocks[i]));
            }
            for (int i = 0; i < BLOCKS; i++) {
                t_free(blocks[(i * 3) % BLOCKS]);
            }
            for (int i = 0; i < BLOCKS; i++) {
                blocks[i] = t_calloc(size, 1);
                check_zero(blocks[i], size);
            }
            for (int i = 0; i < BLOCKS; i++) {
                t_free(blocks[i]);
            }
        }
    }
}

/* Dirty memory comes back as blocks of other sizes: extents split and join under calloc. */
TEST(calloc_is_zero_among_mixed_sizes)
{
    enum { BLOCKS = 200, ROUNDS = 6000 };
    static unsigned char *blocks[BLOCKS];
    uint64_t random = 99;
    for (int round = 0; round < ROUNDS; round++) {
        size_t i = test_random(&random) % BLOCKS;
        size_t size =
            1 + (test_random(&random) >> 20) % ((size_t)64 << (test_random(&random) % 13));
        t_free(blocks[i]);
        if (test_random(&random) % 2) {
            blocks[i] = t_calloc(1, size);
            check_zero(blocks[i], size);
        } else {
            blocks[i] = t_malloc(size);
            CHECK(blocks[i] != NULL);
        }
        memset(blocks[i], 0xa5, t_malloc_usable_size(blocks[i]));
        if (round % 1000 == 999) {
            t_malloc_trim(0);
        }
    }
}

TEST(calloc_is_zero_after_realloc_shrinks)
{
    for (size_t size = 100000; size < 48u << 20; size *= 3) {
        unsigned char *block = t_malloc(size);
        memset(block, 0xff, size);
        block = t_realloc(block, size / 3);
        unsigned char *zeros = t_calloc(1, size / 2);
        check_zero(zeros, size / 2);
        t_free(zeros);
        t_free(block);
    }
}
