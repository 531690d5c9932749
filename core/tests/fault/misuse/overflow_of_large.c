// expect: secure=abort "(300001 bytes" fast=any debug=abort "(300001 bytes"
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
