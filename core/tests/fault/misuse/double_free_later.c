// expect: secure=abort "double free" fast=any debug=abort "double free"
/* SPDX-License-Identifier: MIT
 * Other frees lie between the two. */
#include <stdlib.h>

int main(void)
{
    void *blocks[100];
    for (int i = 0; i < 100; i++) {
        blocks[i] = malloc(48);
    }
    for (int i = 0; i < 50; i++) {
        free(blocks[i]);
    }
    free(blocks[7]);
    return 0;
}
