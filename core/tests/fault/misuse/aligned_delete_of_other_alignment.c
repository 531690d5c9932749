// expect: secure=any fast=any debug=any
/* SPDX-License-Identifier: MIT
 * Aligned operator delete of a block that is not aligned so. */
#include <stddef.h>
#include <stdlib.h>

__attribute__((weak)) void free_aligned_sized(void *block, size_t alignment, size_t size);

int main(void)
{
    free_aligned_sized(malloc(100), 4096, 100);
    return 0;
}
