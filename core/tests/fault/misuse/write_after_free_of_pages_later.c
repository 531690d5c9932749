// expect: fast=any secure=abort "write after free: byte 16 of " debug=abort "write after free: byte 16 of "
/* SPDX-License-Identifier: MIT
 * The beginning of a block of pages that was freed and waits, after so many others that it is not without access:
 * found when others have taken its place. */
#include <stdlib.h>

int main(void)
{
    for (int i = 0; i < 1000; i++) {
        free(malloc(40000));
    }
    char *volatile block = malloc(40000);
    free(block);
    block[16] = 1;
    for (int i = 0; i < 1000; i++) {
        free(malloc(40000));
    }
    return 0;
}
