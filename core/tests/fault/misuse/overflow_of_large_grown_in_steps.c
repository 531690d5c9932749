// expect: fast=any secure=any debug=abort "byte 0 behind it is 0x1"
/* SPDX-License-Identifier: MIT
 * One byte behind a block that realloc has made larger many times, at one place of the program, where it was. */
#include <stdint.h>
#include <stdlib.h>

enum { FROM = 40000, STEP = 16, STEPS = 1500 };

int main(void)
{
    size_t size = FROM;
    char *block = malloc(size);
    unsigned moves = 0;
    for (int i = 0; i < STEPS && block != NULL; i++) {
        uintptr_t before = (uintptr_t)block;
        size += STEP;
        block = realloc(block, size);
        moves += (uintptr_t)block != before;
    }
    if (block == NULL || moves > 50) {
        return 1; /* it is copied at each step */
    }
    ((volatile char *)block)[size] = 1;
    free(block);
    return 0;
}
