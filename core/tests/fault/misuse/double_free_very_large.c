// expect: secure=abort "double free of" fast=abort "double free of" debug=abort "double free of"
/* SPDX-License-Identifier: MIT
 * A block with a mapping of its own, which the first free may have unmapped. */
#include <stdlib.h>

int main(void)
{
    char *block = malloc((size_t)200 << 20);
    block[0] = 1;
    free(block);
    free(block);
    return 0;
}
