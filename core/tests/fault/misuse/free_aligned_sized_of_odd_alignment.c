// expect: secure=abort "which is no power of two" fast=any debug=abort "which is no power of two"
/* SPDX-License-Identifier: MIT
 * free_aligned_sized with an alignment that no block has. */
#include <stddef.h>
#include <stdlib.h>

__attribute__((weak)) void free_aligned_sized(void *block, size_t alignment, size_t size);

int main(void)
{
    free_aligned_sized(aligned_alloc(64, 128), 48, 128);
    return 0;
}
