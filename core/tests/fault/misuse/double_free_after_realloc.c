// expect: secure=abort "free of" fast=any debug=abort "free of"
/* SPDX-License-Identifier: MIT
 * realloc moved the block, the program frees the old address. */
#include <stdlib.h>

int main(void)
{
    void *block = malloc(100);
    void *moved = realloc(block, 100000);
    free(block);
    free(moved);
    return 0;
}
