// expect: secure=abort "realloc of" fast=abort "realloc of" debug=abort "realloc of"
/* SPDX-License-Identifier: MIT
 * realloc of a freed block of pages to the same size, also where such blocks are kept for the next request. */
#include <stdlib.h>

enum { BLOCKS = 100, SIZE = 100000 };

int main(void)
{
    static char *blocks[BLOCKS];
    for (int round = 0; round < 50; round++) {
        for (int i = 0; i < BLOCKS; i++) {
            blocks[i] = malloc(SIZE);
        }
        for (int i = 0; i < BLOCKS; i++) {
            free(blocks[i]);
        }
    }
    char *volatile block = malloc(SIZE);
    free(block);
    block = realloc(block, SIZE);
    free(block);
    return 0;
}
