// expect: secure=abort "overflow of" fast=any debug=abort "overflow of"
/* SPDX-License-Identifier: MIT
 * realloc looks behind the block that stays where it is. */
#include <stdlib.h>

int main(void)
{
    char *volatile block = malloc(100);
    block[100] ^= 1;
    free(realloc(block, 90));
    return 0;
}
