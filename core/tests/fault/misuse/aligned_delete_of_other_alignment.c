// expect: secure=abort "with an alignment of" fast=any debug=abort "with an alignment of"
/* SPDX-License-Identifier: MIT
 * Aligned operator delete of a block that is not aligned so. */
#include <stddef.h>
#include <stdlib.h>

__attribute__((weak)) void free_aligned_sized(void *block, size_t alignment, size_t size);

int main(void)
{
    char *blocks[2] = {malloc(100), malloc(100)}; /* one of them at least is not so aligned */
    free_aligned_sized(blocks[0], 4096, 100);
    free_aligned_sized(blocks[1], 4096, 100);
    return 0;
}
