/* SPDX-License-Identifier: MIT
 *
 * mallocx and its kin do what jemalloc documents, in a program that includes <jemalloc/jemalloc.h>.
 */
#include <jemalloc/jemalloc.h>

#include <stdlib.h>

#include "../test.h"

static const size_t sizes[] = {1,    8,     16,    100,    1024,    1025,   4096,
                               9000, 32768, 32769, 100000, 1 << 20, 9 << 20};

#define FOR_EACH_SIZE(size) \
    for (size_t i_ = 0, size; i_ < sizeof sizes / sizeof *sizes && (size = sizes[i_], 1); i_++)

/* Makes free memory that is not zero. */
static void leave_dirt(size_t size)
{
    void *blocks[8];
    for (int i = 0; i < 8; i++) {
        blocks[i] = malloc(size);
        CHECK(blocks[i] != NULL);
        memset(blocks[i], 0xee, size);
    }
    for (int i = 0; i < 8; i++) {
        free(blocks[i]);
    }
}

static void check_zero(const unsigned char *bytes, size_t from, size_t to)
{
    for (size_t i = from; i < to; i++) {
        CHECK_MSG(bytes[i] == 0, "byte %zu of %zu is %#x", i, to, bytes[i]);
    }
}

TEST(flags_have_jemallocs_bits)
{
    CHECK_EQ(MALLOCX_ALIGN(1), 0);
    CHECK_EQ(MALLOCX_ALIGN(64), 6);
    CHECK_EQ(MALLOCX_ALIGN((size_t)1 << 31), 31);
    CHECK_EQ(MALLOCX_ALIGN((size_t)1 << 40), 40);
    CHECK_EQ(MALLOCX_LG_ALIGN(12), 12);
    CHECK_EQ(MALLOCX_ZERO, 0x40);
    CHECK_EQ(MALLOCX_TCACHE_NONE, 0x100);
    CHECK_EQ(MALLOCX_TCACHE(0), 0x200);
    CHECK_EQ(MALLOCX_ARENA(0), 1 << 20);
    CHECK_EQ(MALLCTL_ARENAS_ALL, 4096);
    CHECK_EQ(MALLCTL_ARENAS_DESTROYED, 4097);
}

TEST(mallocx_aligns_and_is_as_large_as_nallocx_says)
{
    FOR_EACH_SIZE(size)
    {
        for (int lg = 0; lg <= 22; lg++) {
            int flags = MALLOCX_LG_ALIGN(lg);
            size_t promised = nallocx(size, flags);
            unsigned char *block = mallocx(size, flags);
            CHECK(block != NULL);
            CHECK_EQ((uintptr_t)block % ((size_t)1 << lg), 0);
            CHECK_GE(promised, size);
            CHECK_GE(sallocx(block, flags), promised);
            CHECK_EQ(sallocx(block, flags), malloc_usable_size(block));
            CHECK(TEST_MODE == 0 || (promised == size && sallocx(block, flags) == size));
            block[0] = block[size - 1] = 1;
            sdallocx(block, lg % 2 ? size : promised, flags);
        }
    }
}

TEST(mallocx_zero_is_zero_to_the_end)
{
    FOR_EACH_SIZE(size)
    {
        for (int lg = 0; lg <= 16; lg += 4) {
            leave_dirt(size);
            int flags = MALLOCX_ZERO | MALLOCX_LG_ALIGN(lg);
            unsigned char *block = mallocx(size, flags);
            CHECK(block != NULL);
            check_zero(block, 0, sallocx(block, 0));
            memset(block, 0xee, sallocx(block, 0));
            dallocx(block, flags);
        }
    }
}

TEST(rallocx_keeps_and_zeroes_what_is_new)
{
    FOR_EACH_SIZE(size)
    {
        for (int lg = 0; lg <= 12; lg += 6) {
            int flags = MALLOCX_ZERO | MALLOCX_LG_ALIGN(lg);
            leave_dirt(size * 3);
            unsigned char *block = mallocx(size, flags);
            memset(block, 0x11, sallocx(block, 0));
            size_t before = sallocx(block, 0);
            block = rallocx(block, size * 3, flags);
            CHECK(block != NULL);
            CHECK_EQ((uintptr_t)block % ((size_t)1 << lg), 0);
            size_t kept = before < size * 3 ? before : size * 3;
            for (size_t i = 0; i < kept; i++) {
                CHECK_EQ(block[i], 0x11);
            }
            check_zero(block, before, sallocx(block, 0));
            block = rallocx(block, 5, flags);
            CHECK_EQ(block[0], 0x11);
            sdallocx(block, 5, flags);
        }
    }
}

/* A copy holds what was asked for of the old block, and nothing that others left there. */
TEST(rallocx_zeroes_behind_what_it_copies)
{
    FOR_EACH_SIZE(size)
    {
        for (int lg = 0; lg <= 16; lg += 4) {
            for (int named = 0; named < 2; named++) {
                int flags = MALLOCX_ZERO | MALLOCX_LG_ALIGN(lg) | (named ? MALLOCX_TCACHE_NONE : 0);
                unsigned char *block = mallocx(size, MALLOCX_ZERO);
                size_t less = size / 5 + 1;
                leave_dirt(less);
                block = rallocx(block, less, flags);
                CHECK(block != NULL);
                check_zero(block, 0, sallocx(block, 0));
                dallocx(block, flags);
            }
        }
    }
}

/* Where it is as large as was asked for, it is ours all the same. */
TEST(rallocx_does_with_a_block_of_no_bytes_what_the_flags_say)
{
    unsigned arena, found;
    size_t size = sizeof arena;
    CHECK_EQ(mallctl("arenas.create", &arena, &size, NULL, 0), 0);
    for (int i = 0; i < 200; i++) {
        int named = i % 3 == 0 ? MALLOCX_ARENA(arena) | MALLOCX_TCACHE_NONE : 0;
        size_t asked = 1 + (size_t)i * 37;
        leave_dirt(asked);
        void *empty = malloc(0);
        size_t usable = sallocx(empty, 0);
        void *block = rallocx(empty, asked, MALLOCX_ZERO | MALLOCX_LG_ALIGN(12) | named);
        CHECK_EQ((uintptr_t)block % 4096, 0);
        check_zero(block, usable, asked);
        CHECK_EQ(mallctl("arenas.lookup", &found, &size, &block, sizeof block), 0);
        CHECK_EQ(found == arena, named != 0);
        dallocx(block, 0);
        block = rallocx(malloc(0), asked, MALLOCX_ZERO);
        check_zero(block, usable, asked);
        free(block);
    }
}

TEST(xallocx_stays_where_it_is)
{
    FOR_EACH_SIZE(size)
    {
        unsigned char *block = mallocx(size, 0);
        size_t usable = sallocx(block, 0);
        memset(block, 0x11, usable);
        CHECK_EQ(xallocx(block, usable, 0, 0), usable);
        size_t grown = xallocx(block, usable + 1, 5 << 20, MALLOCX_ZERO);
        CHECK_EQ(grown, sallocx(block, 0));
        CHECK_GE(grown, usable);
        for (size_t i = 0; i < usable; i++) {
            CHECK_EQ(block[i], 0x11);
        }
        check_zero(block, usable, grown);
        CHECK_LE(xallocx(block, size, 0, 0), grown);
        CHECK_GE(sallocx(block, 0), size);
        size_t last = sallocx(block, 0);
        CHECK_EQ(xallocx(block, SIZE_MAX, 0, 0), last);
        CHECK_EQ(xallocx(block, SIZE_MAX - 100, 50, 0), last);
        CHECK_EQ(xallocx(block, SIZE_MAX, SIZE_MAX, 0), last);
        dallocx(block, 0);
    }
}

/* A block with free pages behind it, and one without. In secure and debug there are pages without access
 * behind such a block, so that it grows no further than its last page. */
TEST(xallocx_grows_where_there_is_room)
{
    char *block = mallocx(200000, 0);
    size_t least = 300000;
    size_t grown = xallocx(block, least, 0, 0);
    CHECK_GE(grown, TEST_MODE >= 1 ? 200000 : least);
    CHECK_EQ(grown, sallocx(block, 0));
    memset(block, 1, grown);
    size_t shrunk = xallocx(block, 100000, 0, 0);
    CHECK_LT(shrunk, grown);
    CHECK_GE(shrunk, 100000);
    dallocx(block, 0);
}

TEST(size_zero_and_null_give_the_smallest_block)
{
    void *block = mallocx(0, 0);
    CHECK(block != NULL);
    CHECK_GE(sallocx(block, 0), 1);
    block = rallocx(block, 0, 0);
    CHECK(block != NULL);
    dallocx(block, 0);
    block = rallocx(NULL, 100, MALLOCX_ZERO);
    check_zero(block, 0, sallocx(block, 0));
    dallocx(block, 0);
    CHECK(nallocx(0, 0) >= 1);
}

TEST(what_cannot_be_is_refused)
{
    static const size_t impossible[] = {SIZE_MAX, SIZE_MAX / 2, (size_t)1 << 62};
    for (int i = 0; i < 3; i++) {
        CHECK_EQ(nallocx(impossible[i], 0), 0);
        CHECK(mallocx(impossible[i], 0) == NULL);
        CHECK(mallocx(impossible[i], MALLOCX_ZERO | MALLOCX_ALIGN(4096)) == NULL);
        char *block = mallocx(100, 0);
        block[99] = 7;
        CHECK(rallocx(block, impossible[i], 0) == NULL);
        CHECK(rallocx(block, impossible[i], MALLOCX_ALIGN(128) | MALLOCX_ZERO) == NULL);
        CHECK_EQ(block[99], 7);
        dallocx(block, 0);
    }
    CHECK(mallocx(1, MALLOCX_LG_ALIGN(63)) == NULL);
    CHECK_EQ(nallocx(1, MALLOCX_LG_ALIGN(63)), 0);
}

/* As Rust frees what it allocated: with the same alignment, whichever way the block came. */
TEST(what_was_asked_aligned_is_freed_so)
{
    static const size_t sizes[] = {1, 100, 5000, 40000, (size_t)1 << 20, (size_t)9 << 20};
    for (int i = 0; i < 6; i++) {
        for (int lg = 5; lg < 14; lg++) {
            int flags = MALLOCX_LG_ALIGN(lg);
            unsigned char *block = mallocx(sizes[i], flags | MALLOCX_ZERO);
            check_zero(block, 0, sizes[i]);
            sdallocx(block, sizes[i], flags);
            block = malloc(sizes[i]);
            block[0] = 7;
            block = rallocx(block, sizes[i], flags);
            CHECK_EQ((uintptr_t)block & (((size_t)1 << lg) - 1), 0);
            CHECK_EQ(block[0], 7);
            sdallocx(block, sizes[i], flags);
        }
    }
}

/* No program of jemalloc's ends for that; the secure build keeps what aligned_alloc was asked for. */
TEST(what_was_asked_aligned_may_be_freed_as_if_it_was_not)
{
    for (size_t size = 64; size <= 100000; size *= 5) {
        sdallocx(aligned_alloc(64, size), size, 0);
        sdallocx(mallocx(size, MALLOCX_ALIGN(64)), size, MALLOCX_ALIGN(8));
        sdallocx(rallocx(aligned_alloc(64, size), size, 0), size, 0);
    }
}

/* The cache of an identity that does not exist is none. */
TEST(arena_and_cache_flags_are_accepted)
{
    static const int flags[] = {MALLOCX_TCACHE_NONE, MALLOCX_TCACHE(3), MALLOCX_ARENA(0),
                                MALLOCX_ARENA(0) | MALLOCX_TCACHE_NONE | MALLOCX_ZERO};
    for (int i = 0; i < 4; i++) {
        char *block = mallocx(1000, flags[i]);
        CHECK(block != NULL);
        memset(block, 1, 1000);
        block = rallocx(block, 100000, flags[i]);
        CHECK_EQ(block[999], 1);
        CHECK_GE(nallocx(1000, flags[i]), 1000);
        sdallocx(block, 100000, flags[i]);
    }
}
