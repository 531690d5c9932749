// expect: secure=abort "(100 bytes" fast=any debug=abort "(100 bytes"
/* SPDX-License-Identifier: MIT
 * The end of a string that is as long as its block. */
#include <stdlib.h>
#include <string.h>

int main(void)
{
    char *volatile block = malloc(100);
    memset(block, 65, 100);
    block[100] = 0;
    free(block);
    return 0;
}
