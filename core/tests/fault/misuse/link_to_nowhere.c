// expect: secure=abort "write after free" fast=any debug=abort "write after free"
/* SPDX-License-Identifier: MIT
 * The link of a free block leads to an address that nothing is mapped at. */
#include <stdlib.h>

int main(void)
{
    void **first = malloc(100);
    void **block = malloc(100);
    free(first);
    free(block);
    *block = (void *)0x123456789a0;
    for (int i = 0; i < 10000; i++) {
        malloc(100);
    }
    return 0;
}
