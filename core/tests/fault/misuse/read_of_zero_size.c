// expect: secure=abort "overflow of " fast=any debug=any
/* SPDX-License-Identifier: MIT
 * A read of a block of no bytes, which other blocks of no bytes surround. */
#include <stdlib.h>

int main(void)
{
    for (int i = 0; i < 100; i++) {
        free(malloc(i % 2));
    }
    volatile char *block = malloc(0);
    return block[0] == 1;
}
