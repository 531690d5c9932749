// expect: fast=any secure=any debug=abort "(24 bytes, allocated by thread"
/* SPDX-License-Identifier: MIT
 * The sentence has the size that was asked for. */
#include <stdlib.h>
#include <string.h>

int main(void)
{
    char *volatile block = calloc(3, 8);
    block[24] = 1;
    free(block);
    return 0;
}
