// expect: fast=any secure=any debug=abort "overflow of "
/* SPDX-License-Identifier: MIT
 * realloc looks before it copies. */
#include <stdlib.h>
#include <string.h>

int main(void)
{
    char *volatile block = malloc(40);
    block[40] = 1;
    block = realloc(block, 80);
    free(block);
    return 0;
}
