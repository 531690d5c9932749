// expect: secure=abort "with a size of" fast=any debug=abort "with a size of"
/* SPDX-License-Identifier: MIT
 * free_sized of a large block with a small size. */
#include <stddef.h>
#include <stdlib.h>

__attribute__((weak)) void free_sized(void *block, size_t size);

int main(void)
{
    free_sized(malloc(300000), 10);
    return 0;
}
