// expect: secure=abort "overflow of" fast=any debug=abort "overflow of"
/* SPDX-License-Identifier: MIT
 * One byte behind a block with pages of its own. */
#include <stdlib.h>

int main(void)
{
    char *volatile block = malloc(300001);
    block[300001] ^= 1;
    free(block);
    return 0;
}
