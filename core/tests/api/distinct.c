/* SPDX-License-Identifier: MIT
 *
 * Live blocks never overlap: each carries a pattern of its own, checked before it is freed.
 */
#include "../allocator.h"
#include "../pattern.h"
#include "../test.h"

enum { BLOCKS = 20000 };

static unsigned char *blocks[BLOCKS];
static size_t sizes[BLOCKS];

static void run(size_t largest_log2, size_t rounds, uint64_t seed)
{
    uint64_t random = seed;
    for (size_t round = 0; round < t_rounds(rounds); round++) {
        size_t i = test_random(&random) % BLOCKS;
        if (blocks[i]) {
            pattern_check(blocks[i], sizes[i], i);
            t_free(blocks[i]);
        }
        sizes[i] = (test_random(&random) >> 9) %
                   ((size_t)1 << (3 + test_random(&random) % (largest_log2 - 2)));
        blocks[i] = t_malloc(sizes[i]);
        CHECK(blocks[i] != NULL);
        pattern_write(blocks[i], sizes[i], i);
    }
    for (size_t i = 0; i < BLOCKS; i++) {
        if (blocks[i]) {
            pattern_check(blocks[i], sizes[i], i);
            t_free(blocks[i]);
        }
    }
}

TEST(small_blocks_do_not_overlap)
{
    run(10, 1000000, 1);
}

TEST(mixed_blocks_do_not_overlap)
{
    run(16, 150000, 2);
}

TEST(large_blocks_do_not_overlap)
{
    run(19, 20000, 3);
}
