// expect: secure=abort "double free" fast=any debug=abort "double free"
/* SPDX-License-Identifier: MIT
 * Thousands of other calls lie between the two, none of which gets the block. */
#include <stdlib.h>

int main(void)
{
    void *block = malloc(200);
    free(block);
    for (int i = 0; i < 100000; i++) {
        free(malloc((size_t)(i % 60)));
    }
    free(block);
    return 0;
}
