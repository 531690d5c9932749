/* SPDX-License-Identifier: MIT
 *
 * Alignments that are no power of two: EINVAL from aligned_alloc and posix_memalign, rounded up by
 * memalign as long as there is a power of two above them.
 */
#include <errno.h>

#include "../allocator.h"
#include "../test.h"

TEST(aligned_alloc_rejects_other_than_powers_of_two)
{
    static const size_t bad[] = {0,  3,   5,    6,    7,     12,       24,
                                 48, 100, 4095, 4097, 12288, SIZE_MAX, SIZE_MAX - 1};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        errno = 0;
        void *block = t_aligned_alloc(bad[i], 64);
        CHECK_MSG(block == NULL, "alignment %zu gave %p", bad[i], block);
        CHECK_EQ(errno, EINVAL);
    }
}

TEST(posix_memalign_rejects_bad_alignments)
{
    static const size_t bad[] = {0,  1,  2,  4,   3,    5,        7,           9,
                                 12, 24, 40, 100, 4104, SIZE_MAX, SIZE_MAX - 7};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        void *out = &out;
        errno = 77;
        CHECK_MSG(t_posix_memalign(&out, bad[i], 64) == EINVAL, "alignment %zu", bad[i]);
        CHECK(out == &out);
        CHECK_EQ(errno, 77);
    }
}

TEST(size_need_not_be_a_multiple)
{
    for (size_t size = 1; size < 200; size++) {
        void *block = t_aligned_alloc(128, size);
        CHECK(block != NULL);
        CHECK_EQ((uintptr_t)block % 128, 0);
        t_free(block);
    }
}

TEST(memalign_rounds_up)
{
    static const size_t pairs[][2] = {{0, 1},       {1, 1},       {3, 4},         {5, 8},
                                      {12, 16},     {24, 32},     {33, 64},       {100, 128},
                                      {3000, 4096}, {5000, 8192}, {70000, 131072}};
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
        void *block = t_memalign(pairs[i][0], 100);
        CHECK_MSG(block != NULL, "alignment %zu", pairs[i][0]);
        CHECK_EQ((uintptr_t)block % pairs[i][1], 0);
        t_free(block);
    }
}

TEST(memalign_of_what_cannot_be)
{
    static const struct {
        size_t alignment;
        int error;
    } cases[] = {{SIZE_MAX, EINVAL},
                 {SIZE_MAX / 2 + 2, EINVAL},
                 {SIZE_MAX / 2 + 1, ENOMEM},
                 {(size_t)1 << 62, ENOMEM},
                 {(size_t)1 << 50, ENOMEM}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        errno = 0;
        CHECK(t_memalign(cases[i].alignment, 100) == NULL);
        CHECK_EQ(errno, cases[i].error);
    }
}
