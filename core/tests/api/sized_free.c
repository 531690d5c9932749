/* SPDX-License-Identifier: MIT
 *
 * free_sized and free_aligned_sized take the size (and alignment) that was asked for, from every
 * entry point that C23 allows.
 */
#include "../allocator.h"
#include "../test.h"

TEST(free_sized_of_every_size)
{
    for (size_t size = 0; size < 5u << 20; size = size < 3000 ? size + 1 : size * 9 / 8) {
        t_free_sized(t_malloc(size), size);
        t_free_sized(t_calloc(1, size), size);
        void *block = t_realloc(t_malloc(10), size + 1);
        t_free_sized(block, size + 1);
    }
}

TEST(free_aligned_sized_of_every_alignment)
{
    for (size_t alignment = 8; alignment <= 4u << 20; alignment *= 2) {
        for (size_t size = 1; size < 200000; size = size * 2 + 1) {
            t_free_aligned_sized(t_aligned_alloc(alignment, size), alignment, size);
        }
    }
}

/* What one kind of free gave back, malloc uses again: nothing is lost on the way. */
TEST(all_kinds_of_free_give_memory_back)
{
    for (int i = 0; i < 60000; i++) {
        t_free_sized(t_malloc(10000), 10000);
        t_free_aligned_sized(t_aligned_alloc(1024, 9000), 1024, 9000);
        t_cfree(t_malloc(11000));
    }
    struct mw_mallinfo2 info = t_mallinfo2();
    CHECK_LT(info.uordblks + info.hblkhd, 64u << 20);
}
