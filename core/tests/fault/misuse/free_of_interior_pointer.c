// expect: secure=abort "inside a block" fast=any debug=abort "inside a block"
/* SPDX-License-Identifier: MIT
 * An address inside a small block, aligned as blocks are. */
#include <stdlib.h>

int main(void)
{
    char *block = malloc(100);
    free(block + 16);
    return 0;
}
