// expect: fast=any secure=abort "underflow of " debug=abort "underflow of "
/* SPDX-License-Identifier: MIT
 * The byte in front of a large block. */
#include <stdlib.h>
#include <string.h>

int main(void)
{
    char *volatile block = malloc(400000);
    block[-3] = 1;
    free(block);
    return 0;
}
