// expect: fast=any secure=any debug=abort "write after free"
/* SPDX-License-Identifier: MIT
 * A stale pointer into a block that realloc has moved. */
#include <stdlib.h>
#include <string.h>

int main(void)
{
    char *volatile block = malloc(100);
    char *volatile stale = block;
    block = realloc(block, 120);
    stale[8] = 1;
    free(block);
    return 0;
}
