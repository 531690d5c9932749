// expect: secure=abort "overflow of" fast=any debug=abort "overflow of"
/* SPDX-License-Identifier: MIT
 * malloc_usable_size looks behind the block. */
#include <malloc.h>
#include <stdlib.h>

int main(void)
{
    char *volatile block = malloc(100);
    block[100] ^= 1;
    malloc_usable_size(block);
    return 0;
}
