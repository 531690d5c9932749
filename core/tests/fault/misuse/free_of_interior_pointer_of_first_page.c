// expect: secure=abort "inside a block" fast=abort "inside a block" debug=abort "inside a block"
/* SPDX-License-Identifier: MIT
 * An address in the first page of a large block. */
#include <stdlib.h>

int main(void)
{
    char *block = malloc(500000);
    free(block + 64);
    return 0;
}
