// expect: secure=abort "malloc_usable_size of" fast=any debug=abort "malloc_usable_size of"
/* SPDX-License-Identifier: MIT
 * The size of a block that was freed is asked for. */
#include <malloc.h>
#include <stdlib.h>

int main(void)
{
    void *block = malloc(100);
    free(block);
    malloc_usable_size(block);
    return 0;
}
