// expect: secure=abort "with an alignment of 16, but the block has 64" fast=any debug=abort "with an alignment of 16, but the block has 64"
/* SPDX-License-Identifier: MIT
 * The same of a large block, with an alignment that every block has. */
#include <stddef.h>
#include <stdlib.h>

__attribute__((weak)) void free_aligned_sized(void *block, size_t alignment, size_t size);

int main(void)
{
    void *block = aligned_alloc(64, 100000);
    free_aligned_sized(block, 16, 100000);
    return 0;
}
