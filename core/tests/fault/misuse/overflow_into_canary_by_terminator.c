// expect: secure=abort "overflow of" fast=any debug=abort "overflow of"
/* SPDX-License-Identifier: MIT
 * The end of a string that is as long as its block, which fills its slot but for the canary. */
#include <stdlib.h>
#include <string.h>

int main(void)
{
    char *volatile block = malloc(24);
    memset(block, 65, 24);
    block[24] = 0;
    free(block);
    return 0;
}
