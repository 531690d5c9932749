// expect: secure=abort "after free: byte 1 of" fast=any debug=abort "after free: byte 1 of"
/* SPDX-License-Identifier: MIT
 * A write to the first word of a free block of which secure fills the ends alone: what the program had left between
 * these is not what was written. */
#include <stdlib.h>
#include <string.h>

enum { SIZE = 20000, ROUNDS = 2000 };

int main(void)
{
    char *volatile block = malloc(SIZE);
    memset(block, 1, SIZE);
    free(block);
    block[1] = 3;
    for (int i = 0; i < ROUNDS; i++) {
        char *volatile other = malloc(SIZE);
        free(other);
    }
    return 0;
}
