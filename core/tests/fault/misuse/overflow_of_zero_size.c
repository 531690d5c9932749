// expect: secure=abort "overflow of " fast=any debug=abort "overflow of"
/* SPDX-License-Identifier: MIT
 * A write into a block of no bytes. */
#include <stdlib.h>

int main(void)
{
    char *volatile block = malloc(0);
    block[0] ^= 1;
    free(block);
    return 0;
}
