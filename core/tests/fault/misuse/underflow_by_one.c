// expect: fast=any secure=any debug=abort "byte 1 in front of it is 0x1"
/* SPDX-License-Identifier: MIT
 * The byte in front of a block. */
#include <stdlib.h>
#include <string.h>

int main(void)
{
    char *volatile block = malloc(40);
    block[-1] = 1;
    free(block);
    return 0;
}
