// expect: fast=any secure=abort "overflow of " debug=abort "overflow of "
/* SPDX-License-Identifier: MIT
 * A block of no bytes has no first byte. */
#include <stdlib.h>
#include <string.h>

int main(void)
{
    char *volatile block = malloc(0);
    block[0] = 1;
    free(block);
    return 0;
}
