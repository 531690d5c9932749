// expect: secure=abort "double free" fast=any debug=abort "double free"
/* SPDX-License-Identifier: MIT
 * realloc to 0 has freed the block. */
#include <stdlib.h>

int main(void)
{
    void *block = malloc(100), *other = malloc(100);
    if (realloc(block, 0) == NULL) {
        free(other);
        free(block);
    }
    return 0;
}
