// expect: secure=abort "overflow of" fast=any debug=abort "overflow of"
/* SPDX-License-Identifier: MIT
 * One byte behind a block that fills its slot but for the canary. */
#include <stdlib.h>

int main(void)
{
    char *volatile block = malloc(24);
    block[24] ^= 1;
    free(block);
    return 0;
}
