// expect: secure=abort "overflow of" fast=any debug=abort "overflow of"
/* SPDX-License-Identifier: MIT
 * What realloc took away is written to. */
#include <stdlib.h>

int main(void)
{
    char *volatile block = malloc(100);
    block = realloc(block, 90);
    block[90] ^= 1;
    free(block);
    return 0;
}
