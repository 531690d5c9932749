// expect: secure=any fast=any debug=abort "write after free"
/* SPDX-License-Identifier: MIT
 * The link of a free block is cleared: where free slots are 0 that is no change. */
#include <malloc.h>
#include <stdlib.h>
#include <string.h>

int main(void)
{
    char *blocks[100];
    for (int i = 0; i < 100; i++) {
        blocks[i] = malloc(100);
    }
    for (int i = 0; i < 100; i += 2) {
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
