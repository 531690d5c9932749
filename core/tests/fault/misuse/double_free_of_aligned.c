// expect: secure=abort "double free" fast=any debug=abort "double free"
/* SPDX-License-Identifier: MIT
 * A block from aligned_alloc. */
#include <stdlib.h>

int main(void)
{
    void *block = aligned_alloc(256, 512), *other = aligned_alloc(256, 512);
    free(block);
    free(other);
    free(block);
    return 0;
}
