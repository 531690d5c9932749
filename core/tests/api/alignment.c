/* SPDX-License-Identifier: MIT
 *
 * Every block has the alignment that was promised or asked for, of every size class.
 */
#include <errno.h>
#include <sys/mman.h>

#include "../allocator.h"
#include "../test.h"

/* What mallow.h promises: 16, and 8 for blocks of up to 8 bytes. */
static size_t least_alignment(size_t size)
{
    return size <= 8 ? 8 : 16;
}

static void check_block(void *block, size_t size, size_t alignment)
{
    CHECK_MSG(block != NULL, "size %zu, alignment %zu", size, alignment);
    CHECK_MSG((uintptr_t)block % alignment == 0, "%p, size %zu, alignment %zu", block, size,
              alignment);
    CHECK_GE(t_malloc_usable_size(block), size);
    memset(block, 0xee, size);
}

TEST(malloc_alignment_of_every_size)
{
    void *kept[4];
    for (size_t size = 1; size < 70000; size += size < 2100 ? 1 : 61) {
        for (int i = 0; i < 4; i++) {
            kept[i] = i % 2 ? t_calloc(1, size) : t_malloc(size);
            check_block(kept[i], size, least_alignment(size));
        }
        for (int i = 0; i < 4; i++) {
            kept[i] = t_realloc(kept[i], size + 9);
            check_block(kept[i], size + 9, 16);
            t_free(kept[i]);
        }
    }
}

TEST(malloc_alignment_of_large_blocks)
{
    for (size_t size = 60000; size < 64u << 20; size = size * 9 / 8 + 1) {
        void *block = t_malloc(size);
        check_block(block, size, 16);
        t_free(block);
    }
}

/* Several blocks at once, so that not only the first slot of a slab or extent is seen. */
static void check_aligned(size_t alignment, size_t size)
{
    void *blocks[6];
    for (int i = 0; i < 6; i++) {
        if (i % 3 == 0) {
            blocks[i] = t_aligned_alloc(alignment, size);
        } else if (i % 3 == 1) {
            blocks[i] = t_memalign(alignment, size);
        } else {
            size_t posix = alignment < sizeof(void *) ? sizeof(void *) : alignment;
            CHECK_EQ(t_posix_memalign(&blocks[i], posix, size), 0);
        }
        check_block(blocks[i], size, alignment);
    }
    for (int i = 0; i < 6; i++) {
        t_free(blocks[i]);
    }
}

TEST(aligned_alloc_of_small_alignments)
{
    for (size_t alignment = 1; alignment <= 16384; alignment *= 2) {
        for (size_t size = 1; size < 40000; size += size < 300 ? 1 : size / 7) {
            check_aligned(alignment, size);
        }
    }
}

TEST(aligned_alloc_of_large_alignments)
{
    for (size_t alignment = 32768; alignment <= 64u << 20; alignment *= 2) {
        static const size_t sizes[] = {1, 100, 4096, 5000, 65536, 100000, 1u << 20, 3u << 20};
        for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
            check_aligned(alignment, sizes[i]);
        }
    }
}

/* More than the machine has memory: the address space that it is looked for in is not held against that. */
KERNEL_TEST(aligned_alloc_of_alignments_beyond_all_memory)
{
    for (size_t alignment = (size_t)128 << 20; alignment <= (size_t)1 << 44; alignment *= 2) {
        void *space = mmap(NULL, 3 * alignment, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (space == MAP_FAILED) {
            continue;
        }
        munmap(space, 3 * alignment);
        unsigned char *block = t_aligned_alloc(alignment, 100000);
        CHECK_MSG(block != NULL, "2^%d", __builtin_ctzl(alignment));
        check_block(block, 100000, alignment);
        memset(block, 1, 100000);
        t_free(block);
    }
}

TEST(aligned_block_grows_and_shrinks)
{
    for (size_t alignment = 32; alignment <= 1u << 20; alignment *= 2) {
        unsigned char *block = t_aligned_alloc(alignment, 1000);
        check_block(block, 1000, alignment);
        for (int i = 0; i < 1000; i++) {
            block[i] = (unsigned char)(i * 7);
        }
        block = t_realloc(block, 200000);
        CHECK(block != NULL);
        block = t_realloc(block, 500);
        CHECK(block != NULL);
        for (int i = 0; i < 500; i++) {
            CHECK_EQ(block[i], (unsigned char)(i * 7));
        }
        t_free(block);
    }
}
