// expect: secure=abort "overflow of" fast=any debug=abort "overflow of"
/* SPDX-License-Identifier: MIT
 * One byte behind a block, found when it is freed. */
#include <stdlib.h>

int main(void)
{
    char *volatile block = malloc(100);
    block[100] ^= 1;
    free(block);
    return 0;
}
