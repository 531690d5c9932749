// expect: secure=abort "write after free" fast=any debug=abort "write after free"
/* SPDX-License-Identifier: MIT
 * The link of a free block leads back to it. */
#include "link.h"

int main(void)
{
    free_two();
    *block = block;
    allocate_again();
    return 0;
}
