// expect: secure=abort "write after free" fast=any debug=abort "write after free"
/* SPDX-License-Identifier: MIT
 * The link of a free block above 1 KiB leads to a free block that is too small. */
#include <stdlib.h>

int main(void)
{
    void *small = malloc(16);
    void **first = malloc(5000);
    void **block = malloc(5000);
    free(small);
    free(first);
    free(block);
    *block = small;
    for (int i = 0; i < 1000; i++) {
        malloc(5000);
    }
    return 0;
}
