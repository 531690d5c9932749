// expect: secure=abort "write after free" fast=any debug=abort "write after free"
/* SPDX-License-Identifier: MIT
 * A write to a block whose slot has left the quarantine, and is deep in a list when the program ends. */
#include <stdlib.h>

int main(void)
{
    enum { BLOCKS = 600 };
    static char *blocks[BLOCKS];
    for (int i = 0; i < BLOCKS; i++) {
        blocks[i] = malloc(24);
    }
    for (int i = 0; i < BLOCKS; i += 2) {
        free(blocks[i]);
    }
    char *volatile stale = blocks[0];
    stale[12] = 1;
    return 0;
}
