// expect: secure=abort "write after free" fast=any debug=abort "write after free"
/* SPDX-License-Identifier: MIT
 * The link of a free block leads back to it. */
#include <stdlib.h>

int main(void)
{
    void **first = malloc(100);
    void **block = malloc(100);
    free(first);
    free(block);
    *block = block;
    for (int i = 0; i < 100; i++) {
        malloc(100);
    }
    return 0;
}
