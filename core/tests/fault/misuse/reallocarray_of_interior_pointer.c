// expect: secure=abort "realloc of" fast=any debug=abort "realloc of"
/* SPDX-License-Identifier: MIT
 * reallocarray of an address inside a block. */
#include <stdlib.h>

void *reallocarray(void *block, size_t count, size_t size);

int main(void)
{
    char *block = malloc(100);
    free(reallocarray(block + 16, 50, 100));
    return 0;
}
