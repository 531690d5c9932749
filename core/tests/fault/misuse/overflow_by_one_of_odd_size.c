// expect: fast=any secure=any debug=abort "byte 0 behind it is 0x0"
/* SPDX-License-Identifier: MIT
 * The byte behind a block of odd size, although the slot goes on. */
#include <stdlib.h>
#include <string.h>

int main(void)
{
    char *volatile block = malloc(61);
    block[61] = 0;
    free(block);
    return 0;
}
