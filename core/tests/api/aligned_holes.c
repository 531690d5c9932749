/* SPDX-License-Identifier: MIT
 *
 * Aligned blocks in memory that smaller blocks have left: such a block, and what is kept of it, may
 * lie across several of their slots.
 */
#include "../allocator.h"
#include "../test.h"

/* More bytes than the debug build keeps of freed blocks. */
enum { SMALL = 80, COUNT = 400000, ALIGNED = 4000 };

struct block {
    unsigned char *bytes;
    size_t size;
};

static void fill(struct block *block, void *bytes, size_t size, int with)
{
    CHECK(bytes != NULL);
    *block = (struct block){bytes, size};
    memset(bytes, with, size);
}

static void check_and_free(struct block *block, int with)
{
    for (size_t i = 0; i < block->size; i++) {
        CHECK_EQ(block->bytes[i], with);
    }
    CHECK_GE(t_malloc_usable_size(block->bytes), block->size);
    t_free(block->bytes);
}

TEST(aligned_blocks_between_smaller_ones)
{
    static unsigned char *small[COUNT];
    static struct block plain[ALIGNED], aligned[ALIGNED];
    uint64_t random = 5;
    for (size_t i = 0; i < COUNT; i++) {
        small[i] = t_malloc(SMALL);
        CHECK(small[i] != NULL);
    }
    for (size_t i = 0; i < COUNT; i++) {
        if (test_random(&random) % 16 != 0) {
            t_free(small[i]);
            small[i] = NULL;
        }
    }
    for (size_t i = 0; i < ALIGNED; i++) {
        size_t alignment = (size_t)32 << (i % 6), size = 100 + test_random(&random) % 1500;
        /* This brings several blocks into the thread's list, by chance aligned ones. */
        fill(&plain[i], t_malloc(size + alignment), size + alignment, (int)(i % 241));
        void *bytes = t_aligned_alloc(alignment, size);
        CHECK_EQ((uintptr_t)bytes % alignment, 0);
        fill(&aligned[i], bytes, size, (int)(i % 251));
        CHECK_GE(t_malloc_usable_size(bytes), size);
    }
    for (size_t i = 0; i < ALIGNED; i++) {
        check_and_free(&aligned[i], (int)(i % 251));
        check_and_free(&plain[i], (int)(i % 241));
    }
    for (size_t i = 0; i < COUNT; i++) {
        t_free(small[i]);
    }
    CHECK(mw_heap_is_valid());
}
