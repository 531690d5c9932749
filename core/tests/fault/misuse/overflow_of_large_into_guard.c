// expect: fast=any secure=any debug=abort "write of byte 8192 behind it"
/* SPDX-License-Identifier: MIT
 * A write that traps behind the last page of a large block. */
#include <stdlib.h>
#include <string.h>

int main(void)
{
    char *volatile block = malloc(300000);
    block[300000 + 8192] = 7;
    free(block);
    return 0;
}
