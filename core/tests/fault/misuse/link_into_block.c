// expect: secure=abort "write after free" fast=any debug=abort "write after free"
/* SPDX-License-Identifier: MIT
 * The link of a free block leads into the middle of another. */
#include <stdlib.h>

int main(void)
{
    char *first = malloc(100);
    void **block = malloc(100);
    free(first);
    free(block);
    *block = first + 16;
    for (int i = 0; i < 10000; i++) {
        malloc(100);
    }
    return 0;
}
