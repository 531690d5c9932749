// expect: fast=any secure=any debug=abort "byte 2 behind it is 0x7"
/* SPDX-License-Identifier: MIT
 * A byte behind a large block, within its last page. */
#include <stdlib.h>
#include <string.h>

int main(void)
{
    char *volatile block = malloc(300001);
    block[300003] = 7;
    free(block);
    return 0;
}
