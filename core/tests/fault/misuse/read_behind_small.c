// expect: secure=any fast=any debug=abort "read of byte 0 behind it"
/* SPDX-License-Identifier: MIT
 * A read of the byte behind a small block, the first one of its call stack. */
#include <stdlib.h>

int main(void)
{
    volatile char *block = malloc(48);
    return block[48] == 1;
}
