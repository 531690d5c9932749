// expect: fast=any secure=abort "or overflow of the block in front of it" debug=any
/* SPDX-License-Identifier: MIT
 * The byte in front of medium blocks, where the block in front is never freed: it holds no more than a part of the
 * size in the canary there, and nearly all sizes are possible. */
#include <stdlib.h>
#include <unistd.h>

enum { BLOCKS = 40, SIZE = 32000 };

int main(void)
{
    static char *blocks[BLOCKS];
    for (int i = 0; i < BLOCKS; i++) {
        blocks[i] = malloc(SIZE);
    }
    for (int i = 0; i < BLOCKS; i++) {
        if ((size_t)blocks[i] % 4096 != 0 || i % 2 == 0) {
            continue;
        }
        for (int front = 0; front < BLOCKS; front += 2) {
            size_t distance = (size_t)blocks[i] - (size_t)blocks[front];
            if (distance >= SIZE && distance < SIZE + 1024) {
                blocks[i][-1] ^= 1;
                free(blocks[i]);
                _exit(0);
            }
        }
    }
    return 0;
}
