/* SPDX-License-Identifier: MIT
 *
 * realloc keeps the common prefix across every size boundary: within a class, between classes,
 * small to large to very large, and back.
 */
#include "../allocator.h"
#include "../test.h"

/* The byte at `offset` of the block with number `owner`; no period that a page or a class has. */
static unsigned char pattern(size_t offset, size_t owner)
{
    uint64_t mixed = (offset + 1) * 0x9E3779B97F4A7C15u + owner * 0xD1B54A32D192ED03u;
    return (unsigned char)(mixed >> 56);
}

static void fill(unsigned char *block, size_t from, size_t to, size_t owner)
{
    for (size_t i = from; i < to; i++) {
        block[i] = pattern(i, owner);
    }
}

static void check_prefix(const unsigned char *block, size_t size, size_t owner)
{
    for (size_t i = 0; i < size; i++) {
        CHECK_MSG(block[i] == pattern(i, owner), "byte %zu of %zu is %#x, not %#x", i, size,
                  block[i], pattern(i, owner));
    }
}

static void check_resize(size_t from, size_t to)
{
    unsigned char *block = t_malloc(from);
    CHECK(block != NULL);
    fill(block, 0, from, from);
    unsigned char *moved = t_realloc(block, to);
    CHECK_MSG(moved != NULL, "%zu to %zu", from, to);
    CHECK_GE(t_malloc_usable_size(moved), to);
    check_prefix(moved, from < to ? from : to, from);
    fill(moved, 0, to, to);
    check_prefix(moved, to, to);
    t_free(moved);
}

TEST(realloc_between_all_small_sizes)
{
    for (size_t from = 1; from < 1200; from += from < 140 ? 1 : 17) {
        for (size_t to = 1; to < 1200; to += to < 140 ? 1 : 17) {
            check_resize(from, to);
        }
    }
}

/* Around every class boundary: the class sizes of this build are read through usable_size. */
TEST(realloc_around_class_boundaries)
{
    enum { MOST = 400 };
    static size_t edges[MOST];
    size_t count = 0;
    for (size_t size = 1; size < 6u << 20 && count < MOST;) {
        void *block = t_malloc(size);
        edges[count] = t_malloc_usable_size(block);
        t_free(block);
        size = edges[count] + 1;
        if (edges[count] > 400000) {
            size += edges[count] / 5; /* page-granular from here on */
        }
        count++;
    }
    for (size_t i = 0; i < count; i++) {
        for (size_t step = 0; step <= 3; step++) {
            size_t other = edges[(i + step * step * 5) % count];
            if (other > 2u << 20 && edges[i] > 2u << 20 && step > 1) {
                continue;
            }
            check_resize(edges[i], other + 1);
            check_resize(edges[i] + 1, other);
        }
    }
}

TEST(realloc_small_to_huge_and_back)
{
    static const size_t steps[] = {
        8,         100,       3000,      20000,     33000,     70000,    200000, 1u << 20, 5u << 20,
        17u << 20, 40u << 20, 70u << 20, 35u << 20, 34u << 20, 6u << 20, 900000, 50000,    4000,
        300,       24,        8,         33u << 20, 16,        9u << 20, 1};
    size_t size = 1;
    unsigned char *block = t_malloc(size);
    fill(block, 0, size, 7);
    for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++) {
        size_t next = steps[i];
        block = t_realloc(block, next);
        CHECK(block != NULL);
        check_prefix(block, size < next ? size : next, 7);
        if (next > size) {
            fill(block, size, next, 7);
        }
        size = next;
    }
    t_free(block);
}

/* The growing buffer of every program that reads a file: by doubling, by halves, byte by byte. */
TEST(realloc_growth_patterns)
{
    for (int kind = 0; kind < 3; kind++) {
        size_t size = 1, owner = (size_t)kind + 100, limit = kind == 2 ? 30000 : 24u << 20;
        unsigned char *block = t_malloc(size);
        fill(block, 0, size, owner);
        while (size < limit) {
            size_t next = kind == 0 ? size * 2 : kind == 1 ? size + size / 2 + 1 : size + 1;
            block = t_realloc(block, next);
            CHECK(block != NULL);
            fill(block, size, next, owner);
            size = next;
        }
        check_prefix(block, size, owner);
        t_free(block);
    }
}

/* Several blocks grow in turn, so that growth in place meets a neighbour. */
TEST(realloc_of_neighbours)
{
    enum { BLOCKS = 24 };
    unsigned char *blocks[BLOCKS];
    size_t sizes[BLOCKS];
    uint64_t random = 12345;
    for (size_t i = 0; i < BLOCKS; i++) {
        sizes[i] = 1000 * i + 1;
        blocks[i] = t_malloc(sizes[i]);
        fill(blocks[i], 0, sizes[i], i);
    }
    for (int round = 0; round < 600; round++) {
        size_t i = test_random(&random) % BLOCKS;
        size_t next = 1 + test_random(&random) % (sizes[i] * 2 + 5000);
        if (next > 3u << 20) {
            next /= 50;
        }
        blocks[i] = t_realloc(blocks[i], next);
        CHECK(blocks[i] != NULL);
        check_prefix(blocks[i], sizes[i] < next ? sizes[i] : next, i);
        fill(blocks[i], 0, next, i);
        sizes[i] = next;
    }
    for (size_t i = 0; i < BLOCKS; i++) {
        check_prefix(blocks[i], sizes[i], i);
        t_free(blocks[i]);
    }
}

TEST(reallocarray_keeps_contents)
{
    unsigned char *block = t_reallocarray(NULL, 10, 10);
    fill(block, 0, 100, 1);
    block = t_reallocarray(block, 1000, 33);
    CHECK(block != NULL);
    check_prefix(block, 100, 1);
    block = t_reallocarray(block, 5, 7);
    CHECK(block != NULL);
    check_prefix(block, 35, 1);
    t_free(block);
}
