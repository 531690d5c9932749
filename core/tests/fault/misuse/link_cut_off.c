// expect: secure=any fast=any debug=any
/* SPDX-License-Identifier: MIT
 * The link of a free block is cleared: blocks are lost, or it is found, but no block is wrong. */
#include <malloc.h>
#include <stdlib.h>
#include <string.h>

int main(void)
{
    char *blocks[100];
    for (int i = 0; i < 100; i++) {
        blocks[i] = malloc(100);
    }
    for (int i = 0; i < 100; i++) {
        free(blocks[i]);
    }
    memset(blocks[50], 0, 8);
    for (int i = 0; i < 10000; i++) {
        char *block = malloc(100);
        if (malloc_usable_size(block) < 100) {
            for (;;) {
            }
        }
        memset(block, 1, 100);
    }
    return 0;
}
