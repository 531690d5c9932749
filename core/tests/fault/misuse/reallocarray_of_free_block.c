// expect: secure=abort "realloc of" fast=any debug=abort "realloc of"
/* SPDX-License-Identifier: MIT
 * reallocarray of a block that was freed. */
#include <stdlib.h>

void *reallocarray(void *block, size_t count, size_t size);

int main(void)
{
    void *block = malloc(100);
    free(block);
    reallocarray(block, 10, 10);
    return 0;
}
