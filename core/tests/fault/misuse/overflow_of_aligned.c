// expect: secure=abort "overflow of" fast=any debug=abort "overflow of"
/* SPDX-License-Identifier: MIT
 * Behind a block of large alignment. */
#include <stdlib.h>

int main(void)
{
    char *volatile block = aligned_alloc(256, 100);
    block[100] ^= 1;
    free(block);
    return 0;
}
