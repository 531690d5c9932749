// expect: fast=any secure=abort "read after free: byte 5 of " debug=abort "read after free: byte 5 of "
/* SPDX-License-Identifier: MIT
 * A large block has pages of its own, which nobody may read once it is free. */
#include <stdlib.h>
#include <string.h>

int main(void)
{
    char *volatile block = malloc(300000);
    block[5] = 1;
    free(block);
    return block[5];
    return 0;
}
