// expect: secure=abort "after free: byte 10000 of" fast=any debug=abort "after free: byte 10000 of"
/* SPDX-License-Identifier: MIT
 * A free block of a size of which secure fills the ends alone, but of the first ones all: found when it leaves the
 * quarantine. */
#include <stdlib.h>
#include <string.h>

enum { SIZE = 20000, ROUNDS = 2000 };

int main(void)
{
    char *volatile block = malloc(SIZE);
    memset(block, 1, SIZE);
    free(block);
    block[SIZE / 2] = 3;
    for (int i = 0; i < ROUNDS; i++) {
        char *volatile other = malloc(SIZE);
        free(other);
    }
    return 0;
}
