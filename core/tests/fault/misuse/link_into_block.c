// expect: secure=abort "write after free" fast=any debug=abort "write after free"
/* SPDX-License-Identifier: MIT
 * The link of a free block leads into the middle of another. */
#include "link.h"

int main(void)
{
    free_two();
    *block = first + 16;
    allocate_again();
    return 0;
}
