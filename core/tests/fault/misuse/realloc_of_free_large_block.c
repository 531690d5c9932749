// expect: secure=abort "realloc of" fast=abort "realloc of" debug=abort "realloc of"
/* SPDX-License-Identifier: MIT
 * realloc of a large block that is free. */
#include <stdlib.h>

int main(void)
{
    void *block = malloc(300000);
    free(block);
    free(realloc(block, 500000));
    return 0;
}
