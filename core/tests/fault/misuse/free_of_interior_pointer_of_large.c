// expect: secure=abort "inside a block" fast=abort "inside a block" debug=abort "inside a block"
/* SPDX-License-Identifier: MIT
 * An address in the middle of a large block, on a page of its own. */
#include <stdlib.h>

int main(void)
{
    char *block = malloc(500000);
    free(block + 40960);
    return 0;
}
