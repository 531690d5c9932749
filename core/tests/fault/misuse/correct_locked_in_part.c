// expect: secure=ok fast=ok debug=ok
/* SPDX-License-Identifier: MIT
 * Blocks of which the program has locked some pages: the kernel makes guards in the others only, which have to be
 * gone when the memory is another block's. */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { BLOCKS = 40, LOCKED = 20480, LOCKED_SIZE = 16384 };

static char *blocks[BLOCKS];

static void use(size_t size)
{
    for (int i = 0; i < BLOCKS; i++) {
        blocks[i] = malloc(size);
        memset(blocks[i], 'a', size);
        mlock(blocks[i] + LOCKED, LOCKED_SIZE);
    }
    for (int i = 0; i < BLOCKS; i++) {
        free(blocks[i]);
    }
}

int main(void)
{
    for (int round = 0; round < 3; round++) {
        use(40000);
        use(200000);
    }
    return 0;
}
