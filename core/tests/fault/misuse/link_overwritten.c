// expect: secure=abort "write after free" fast=any debug=abort "write after free"
/* SPDX-License-Identifier: MIT
 * The first word of a free block is overwritten with an address of the program. */
#include <stdlib.h>

int main(void)
{
    void **volatile block = malloc(48);
    free(block);
    block[0] = &block;
    for (int i = 0; i < 10000; i++) {
        if (malloc(48) == NULL) {
            return 1;
        }
    }
    return 0;
}
