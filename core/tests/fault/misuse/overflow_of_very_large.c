// expect: secure=abort "overflow of" fast=any debug=abort "overflow of"
/* SPDX-License-Identifier: MIT
 * Behind a block that is a mapping of its own. */
#include <stdlib.h>

int main(void)
{
    char *volatile block = malloc(20000001);
    block[20000002] ^= 1;
    free(block);
    return 0;
}
