// expect: secure=any fast=any debug=abort "read after free: byte 5 of"
/* SPDX-License-Identifier: MIT
 * A read of a small block that was freed, the first one of its call stack. */
#include <stdlib.h>

int main(void)
{
    volatile char *block = malloc(48);
    free((char *)block);
    return block[5] == 1;
}
