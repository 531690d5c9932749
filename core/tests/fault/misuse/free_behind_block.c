// expect: fast=any secure=any debug=abort "bytes behind a block of 20 bytes"
/* SPDX-License-Identifier: MIT
 * A pointer into the space behind a block. */
#include <stdlib.h>
#include <string.h>

int main(void)
{
    char *volatile block = malloc(20);
    free(block + 24);
    return 0;
}
