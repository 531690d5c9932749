// expect: fast=any secure=abort "write after free: byte 250000 of " debug=abort "write after free: byte 250000 of "
/* SPDX-License-Identifier: MIT
 * Found at once. */
#include <stdlib.h>
#include <string.h>

int main(void)
{
    char *volatile block = malloc(300000);
    free(block);
    block[250000] = 1;
    return 0;
}
