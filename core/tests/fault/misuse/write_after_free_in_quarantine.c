// expect: secure=abort "write after free" fast=any debug=any
/* SPDX-License-Identifier: MIT
 * The first word of a freed block is written while it waits; others are freed until its turn comes. */
#include <stdlib.h>

int main(void)
{
    long *volatile block = malloc(64);
    free(block);
    block[0] = 1;
    for (int i = 0; i < 100000; i++) {
        free(malloc(64));
    }
    return 0;
}
