// expect: secure=abort "write after free" fast=any debug=abort "write after free"
/* SPDX-License-Identifier: MIT
 * The link of a free block leads to a block that the program holds. */
#include "link.h"

int main(void)
{
    void *used = malloc(100);
    free_two();
    *block = used;
    allocate_again();
    return 0;
}
