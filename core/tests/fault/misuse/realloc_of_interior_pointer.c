// expect: secure=abort "realloc of" fast=any debug=abort "realloc of"
/* SPDX-License-Identifier: MIT
 * realloc of an address inside a block. */
#include <stdlib.h>

int main(void)
{
    char *block = malloc(100);
    free(realloc(block + 16, 5000));
    return 0;
}
