// expect: secure=abort "which is free" fast=any debug=abort "which is free"
/* SPDX-License-Identifier: MIT
 * realloc of a block that is free. */
#include <stdlib.h>

int main(void)
{
    void *block = malloc(100), *other = malloc(100);
    free(block);
    free(other);
    free(realloc(block, 5000));
    return 0;
}
