// expect: secure=abort "double free" fast=abort "double free" debug=abort "double free"
/* SPDX-License-Identifier: MIT
 * A block with an extent of its own. */
#include <stdlib.h>

int main(void)
{
    void *block = malloc(300000);
    free(block);
    free(block);
    return 0;
}
