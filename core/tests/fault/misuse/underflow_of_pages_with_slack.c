// expect: fast=any secure=abort "or underflow of the block behind it" debug=any
/* SPDX-License-Identifier: MIT
 * The bytes in front of blocks that have no guards, but a page more than they need, which was used before in some:
 * where one lies behind another. */
#include <stdlib.h>
#include <string.h>

enum { BLOCKS = 64, SIZE = 66000, USED = 72000, PAGES = 18 * 4096 };

static char *blocks[BLOCKS];

static void allocate(size_t size)
{
    for (int i = 0; i < BLOCKS; i++) {
        blocks[i] = malloc(size);
    }
}

static int is_held(const char *block)
{
    for (int i = 0; i < BLOCKS; i++) {
        if (blocks[i] == block) {
            return 1;
        }
    }
    return 0;
}

int main(void)
{
    allocate(USED);
    for (int i = 0; i < BLOCKS; i++) {
        memset(blocks[i], i, USED);
        free(blocks[i]);
    }
    allocate(SIZE);
    for (int i = 0; i < BLOCKS; i++) {
        char *volatile block = blocks[i];
        if (is_held(block - PAGES)) {
            block[-16] ^= 1;
        }
    }
    for (int i = 0; i < BLOCKS; i++) {
        free(blocks[i]);
    }
    return 0;
}
