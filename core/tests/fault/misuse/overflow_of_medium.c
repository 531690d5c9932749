// expect: secure=abort "(20000 bytes" fast=any debug=abort "(20000 bytes"
/* SPDX-License-Identifier: MIT
 * A few bytes behind a block of a medium class. */
#include <stdlib.h>

int main(void)
{
    char *volatile block = malloc(20000);
    block[20003] ^= 1;
    free(block);
    return 0;
}
