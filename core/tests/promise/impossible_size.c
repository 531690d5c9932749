/* SPDX-License-Identifier: MIT
 *
 * Requests that no machine can serve are refused before free memory is thrown away to make room for
 * them, so that they cost neither time nor the program's warm pages.
 */
#include <errno.h>
#include <malloc.h>

#include "promise.h"

enum { BLOCKS = 12, BLOCK_SIZE = MIB };

static void expect_refusal(void *block)
{
    CHECK(block == NULL);
    CHECK_EQ(errno, ENOMEM);
    errno = 0;
}

static void ask_for_too_much(size_t size)
{
    void *volatile small = malloc(16);
    void *out;
    errno = 0;
    expect_refusal(malloc(size));
    expect_refusal(calloc(1, size));
    expect_refusal(calloc(size, 1));
    expect_refusal(realloc(small, size));
    expect_refusal(reallocarray(small, 1, size));
    expect_refusal(memalign(4096, size));
    expect_refusal(memalign(size, 100));
    expect_refusal(aligned_alloc(64, size));
    CHECK_EQ(posix_memalign(&out, 64, size), ENOMEM);
    free(small);
}

int main(void)
{
    char *blocks[BLOCKS];
    for (size_t i = 0; i < BLOCKS; i++) {
        blocks[i] = malloc(BLOCK_SIZE);
        memset(blocks[i], 1, BLOCK_SIZE);
    }
    for (size_t i = 0; i < BLOCKS; i++) {
        free(blocks[i]);
    }
    size_t before = promise_field("status", "VmRSS:");
    for (unsigned shift = 48; shift < 64; shift++) {
        ask_for_too_much((size_t)1 << shift);
    }
    size_t after = promise_field("status", "VmRSS:");
    promise_at_most("warm memory lost to impossible requests",
                    before > after ? (before - after) / KIB : 0, KIB, "KiB");
    return 0;
}
