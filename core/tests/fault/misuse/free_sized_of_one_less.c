// expect: secure=abort "with a size of" fast=any debug=abort "with a size of"
/* SPDX-License-Identifier: MIT
 * free_sized with a size of the same class. */
#include <stddef.h>
#include <stdlib.h>

__attribute__((weak)) void free_sized(void *block, size_t size);

int main(void)
{
    free_sized(malloc(100), 99);
    return 0;
}
