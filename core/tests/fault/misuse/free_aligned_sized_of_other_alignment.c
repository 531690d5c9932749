// expect: secure=abort "with an alignment of" fast=any debug=abort "with an alignment of"
/* SPDX-License-Identifier: MIT
 * free_aligned_sized with another alignment than the block was allocated with, which its address has as well. */
#include <stddef.h>
#include <stdlib.h>

__attribute__((weak)) void free_aligned_sized(void *block, size_t alignment, size_t size);

int main(void)
{
    free_aligned_sized(aligned_alloc(64, 128), 32, 128);
    return 0;
}
