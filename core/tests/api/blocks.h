/* SPDX-License-Identifier: MIT
 *
 * Blocks that were all there at once, written to, and are free again.
 */
#ifndef TEST_BLOCKS_H
#define TEST_BLOCKS_H

#include "../allocator.h"
#include "../test.h"

static inline void make_and_free(size_t count, size_t size)
{
    static void *blocks[8000];
    CHECK_LE(count, sizeof blocks / sizeof blocks[0]);
    for (size_t i = 0; i < count; i++) {
        blocks[i] = t_malloc(size);
        memset(blocks[i], 1, size);
    }
    for (size_t i = 0; i < count; i++) {
        t_free(blocks[i]);
    }
}

#endif
