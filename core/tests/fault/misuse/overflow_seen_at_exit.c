// expect: fast=any secure=any debug=abort "overflow of "
/* SPDX-License-Identifier: MIT
 * A block that is never freed. */
#include <stdlib.h>
#include <string.h>

int main(void)
{
    char *volatile block = malloc(40);
    block[41] = 1;
    return 0;
}
