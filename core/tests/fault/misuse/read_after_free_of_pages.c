// expect: fast=any secure=abort "read after free: byte 20000 of " debug=abort "read after free: byte 20000 of "
/* SPDX-License-Identifier: MIT
 * A block of pages that was freed: the first ones of a process have no access while they wait. */
#include <stdlib.h>

int main(void)
{
    char *volatile block = malloc(40000);
    block[20000] = 1;
    free(block);
    return block[20000];
}
