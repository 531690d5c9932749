// expect: secure=abort "overflow of" fast=any debug=abort "overflow of"
/* SPDX-License-Identifier: MIT
 * A whole block and more is overwritten; the block behind it is freed first. */
#include <stdlib.h>
#include <string.h>

int main(void)
{
    char *volatile blocks[64];
    for (int i = 0; i < 64; i++) {
        blocks[i] = malloc(40);
    }
    for (int i = 0; i < 32; i++) {
        memset(blocks[i], 1, 64);
    }
    for (int i = 0; i < 64; i++) {
        free(blocks[i]);
    }
    return 0;
}
