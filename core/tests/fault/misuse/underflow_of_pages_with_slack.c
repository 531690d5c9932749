// expect: fast=any secure=abort "or underflow of the block behind it" debug=abort "underflow of "
/* SPDX-License-Identifier: MIT
 * The bytes in front of blocks that have no guards, but a page more than they need, which was used before: one of two
 * lies behind the other. */
#include <stdlib.h>
#include <string.h>

enum { BLOCKS = 4, SIZE = 66000 };

int main(void)
{
    char *volatile blocks[BLOCKS];
    for (int i = 0; i < BLOCKS; i++) {
        blocks[i] = malloc(SIZE + 6000);
        memset(blocks[i], i, SIZE + 6000);
    }
    for (int i = 0; i < BLOCKS; i++) {
        free(blocks[i]);
    }
    for (int i = 0; i < BLOCKS; i++) {
        blocks[i] = malloc(SIZE);
    }
    for (int i = 0; i < BLOCKS; i++) {
        if (blocks[i] != blocks[0]) {
            blocks[i][-16] = 1;
        }
    }
    for (int i = 0; i < BLOCKS; i++) {
        free(blocks[i]);
    }
    return 0;
}
