// expect: secure=abort "double free" fast=abort "double free" debug=abort "double free"
/* SPDX-License-Identifier: MIT
 * The same small block freed twice in a row. */
#include <stdlib.h>

int main(void)
{
    void *block = malloc(48);
    free(block);
    free(block);
    return 0;
}
