// expect: secure=abort "free" fast=any debug=abort "free of"
/* SPDX-License-Identifier: MIT
 * A pointer into a block of no bytes. */
#include <stdlib.h>

int main(void)
{
    char *volatile block = malloc(0);
    free(block + 8);
    return 0;
}
