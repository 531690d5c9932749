// expect: secure=abort "double free of" fast=abort "double free of" debug=abort "double free of"
/* SPDX-License-Identifier: MIT
 * A block that realloc moved: the memory that it had is nobody's. */
#include <stdlib.h>
#include <string.h>

enum { BLOCKS = 16 };

int main(void)
{
    size_t size = (size_t)70 << 20;
    for (int i = 0; i < BLOCKS; i++) {
        char *block = malloc(size + 100);
        block[0] = 1;
        char *moved = realloc(block, 3 * size);
        moved[0] = 2;
        if (moved != block) {
            free(block);
            return 1;
        }
        free(block); /* it grew where it was */
        if (i == BLOCKS - 1) {
            free(block);
        }
    }
    return 1;
}
