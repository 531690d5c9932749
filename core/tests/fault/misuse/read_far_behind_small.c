// expect: secure=abort "read of " fast=any debug=any
/* SPDX-License-Identifier: MIT
 * A read of 64 KiB behind a small block, as when a length is believed. */
#include <stdlib.h>
#include <string.h>

int main(void)
{
    char *blocks[64];
    for (int i = 0; i < 64; i++) {
        blocks[i] = malloc(100);
        memset(blocks[i], 1, 100);
    }
    volatile char *block = blocks[40];
    int sum = 0;
    for (int i = 100; i < 65536; i++) {
        sum += block[i];
    }
    return sum == 1;
}
