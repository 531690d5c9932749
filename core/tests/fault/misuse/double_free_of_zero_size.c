// expect: secure=abort "double free" fast=any debug=abort "double free"
/* SPDX-License-Identifier: MIT
 * Blocks of zero bytes are blocks, too. */
#include <stdlib.h>

int main(void)
{
    void *block = malloc(0), *other = malloc(0);
    free(block);
    free(other);
    free(block);
    return 0;
}
