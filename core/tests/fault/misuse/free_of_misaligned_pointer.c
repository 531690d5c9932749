// expect: secure=abort "inside a block" fast=any debug=abort "inside a block"
/* SPDX-License-Identifier: MIT
 * An address that no block can have. */
#include <stdlib.h>

int main(void)
{
    char *block = malloc(100);
    free(block + 3);
    return 0;
}
