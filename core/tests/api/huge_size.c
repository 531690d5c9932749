/* SPDX-License-Identifier: MIT
 *
 * Sizes that cannot be served give NULL and ENOMEM, from every entry point, and harm nothing.
 */
#include <errno.h>

#include "../allocator.h"
#include "../test.h"

/* Over PTRDIFF_MAX, at the edges where adding a header or rounding to pages would overflow, and
 * sizes below PTRDIFF_MAX that no address space of today holds. */
static const size_t too_large[] = {
    SIZE_MAX,
    SIZE_MAX - 1,
    SIZE_MAX - 15,
    SIZE_MAX - 16,
    SIZE_MAX - 4095,
    SIZE_MAX - 4096,
    SIZE_MAX - 65535,
    SIZE_MAX - 65536,
    SIZE_MAX / 2,
    SIZE_MAX / 2 + 1,
    SIZE_MAX / 2 + 2,
    SIZE_MAX / 2 - 4095,
    SIZE_MAX - (2u << 20),
    (size_t)1 << 62,
    (size_t)1 << 60,
    PTRDIFF_MAX - 4096,
    (size_t)1 << 57,
};
enum { COUNT = sizeof too_large / sizeof too_large[0] };

#define CHECK_ENOMEM(call)                                                   \
    do {                                                                     \
        errno = 0;                                                           \
        const void *result = (call);                                         \
        CHECK_MSG(result == NULL, "%p for size %#zx", result, too_large[i]); \
        CHECK_EQ(errno, ENOMEM);                                             \
    } while (0)

TEST(huge_malloc_fails)
{
    for (int i = 0; i < COUNT; i++) {
        CHECK_ENOMEM(t_malloc(too_large[i]));
        CHECK_ENOMEM(t_calloc(1, too_large[i]));
        CHECK_ENOMEM(t_calloc(too_large[i], 1));
        CHECK_ENOMEM(t_realloc(NULL, too_large[i]));
        CHECK_ENOMEM(t_reallocarray(NULL, too_large[i], 1));
        CHECK_ENOMEM(t_valloc(too_large[i]));
        CHECK_ENOMEM(t_pvalloc(too_large[i]));
    }
}

TEST(huge_aligned_fails)
{
    for (size_t alignment = 1; alignment <= (size_t)1 << 30; alignment *= 2) {
        for (int i = 0; i < COUNT; i++) {
            CHECK_ENOMEM(t_aligned_alloc(alignment, too_large[i]));
            CHECK_ENOMEM(t_memalign(alignment, too_large[i]));
        }
    }
}

TEST(huge_posix_memalign_fails_and_keeps_errno_and_out)
{
    for (size_t alignment = sizeof(void *); alignment <= (size_t)1 << 30; alignment *= 2) {
        for (int i = 0; i < COUNT; i++) {
            void *out = &out;
            errno = 77;
            CHECK_EQ(t_posix_memalign(&out, alignment, too_large[i]), ENOMEM);
            CHECK_EQ(errno, 77);
            CHECK(out == &out);
        }
    }
}

/* An alignment so large that size and alignment together do not fit. */
TEST(huge_alignment_fails)
{
    for (int shift = 50; shift < 63; shift++) {
        size_t alignment = (size_t)1 << shift;
        int i = 0;
        CHECK_ENOMEM(t_aligned_alloc(alignment, 8));
        CHECK_ENOMEM(t_aligned_alloc(alignment, SIZE_MAX / 2 - 4096));
        CHECK_ENOMEM(t_memalign(alignment, 8));
        void *out = NULL;
        CHECK_EQ(t_posix_memalign(&out, alignment, 8), ENOMEM);
    }
    size_t top = (size_t)1 << 63;
    errno = 0;
    CHECK(t_aligned_alloc(top, 8) == NULL);
    CHECK(errno == ENOMEM || errno == EINVAL);
    errno = 0;
    CHECK(t_memalign(top + 1, 8) == NULL); /* no power of two to round up to */
    CHECK(errno == ENOMEM || errno == EINVAL);
}

TEST(overflowing_products_fail)
{
    static const size_t pairs[][2] = {
        {SIZE_MAX, 2},
        {2, SIZE_MAX},
        {SIZE_MAX, SIZE_MAX},
        {(size_t)1 << 32, (size_t)1 << 32},       /* the product is 0 */
        {((size_t)1 << 32) + 1, (size_t)1 << 32}, /* 2^32 after the overflow */
        {(size_t)1 << 63, 2},                     /* 0 */
        {((size_t)1 << 63) + 4, 2},               /* 8 */
        {SIZE_MAX / 16 + 2, 16},                  /* 16 */
        {PTRDIFF_MAX, 3},
        {PTRDIFF_MAX / 2 + 1, 2}, /* no overflow, but over PTRDIFF_MAX */
    };
    unsigned char *block = t_malloc(32);
    memset(block, 0x5a, 32);
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
        errno = 0;
        CHECK_MSG(t_calloc(pairs[i][0], pairs[i][1]) == NULL, "pair %zu", i);
        CHECK_EQ(errno, ENOMEM);
        errno = 0;
        CHECK_MSG(t_reallocarray(NULL, pairs[i][0], pairs[i][1]) == NULL, "pair %zu", i);
        CHECK_EQ(errno, ENOMEM);
        errno = 0;
        CHECK_MSG(t_reallocarray(block, pairs[i][0], pairs[i][1]) == NULL, "pair %zu", i);
        CHECK_EQ(errno, ENOMEM);
    }
    for (int i = 0; i < 32; i++) {
        CHECK_EQ(block[i], 0x5a);
    }
    t_free(block);
}

TEST(failed_realloc_keeps_block)
{
    static const size_t sizes[] = {1, 8, 24, 100, 5000, 40000, 300000, 5u << 20, 40u << 20};
    for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++) {
        unsigned char *block = t_malloc(sizes[s]);
        CHECK(block != NULL);
        memset(block, (int)s + 1, sizes[s]);
        for (int i = 0; i < COUNT; i++) {
            CHECK_ENOMEM(t_realloc(block, too_large[i]));
        }
        for (size_t k = 0; k < sizes[s]; k++) {
            CHECK_EQ(block[k], s + 1);
        }
        t_free(block);
    }
}

TEST(allocation_works_after_failures)
{
    for (int i = 0; i < COUNT; i++) {
        CHECK_ENOMEM(t_malloc(too_large[i]));
        void *block = t_malloc(100);
        CHECK(block != NULL);
        memset(block, 1, 100);
        t_free(block);
    }
}
