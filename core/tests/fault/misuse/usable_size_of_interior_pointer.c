// expect: secure=abort "malloc_usable_size of" fast=any debug=abort "malloc_usable_size of"
/* SPDX-License-Identifier: MIT
 * The size is asked of an address inside a block. */
#include <malloc.h>
#include <stdlib.h>

int main(void)
{
    char *block = malloc(100);
    malloc_usable_size(block + 16);
    return 0;
}
