// expect: secure=abort "write after free" fast=any debug=abort "write after free"
/* SPDX-License-Identifier: MIT
 * The link of a free block leads to a block that the program holds. */
#include <stdlib.h>

int main(void)
{
    void *used = malloc(100);
    void **first = malloc(100);
    void **block = malloc(100);
    free(first);
    free(block);
    *block = used;
    for (int i = 0; i < 10000; i++) {
        malloc(100);
    }
    return 0;
}
