// expect: secure=abort "write after free" fast=any debug=abort "write after free"
/* SPDX-License-Identifier: MIT
 * The link of a free block leads to an address that nothing is mapped at. */
#include "link.h"

int main(void)
{
    free_two();
    *block = (void *)0x123456789a0;
    allocate_again();
    return 0;
}
