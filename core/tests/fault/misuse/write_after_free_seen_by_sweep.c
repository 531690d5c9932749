// expect: fast=any secure=any debug=abort "write after free: byte 3 of "
/* SPDX-License-Identifier: MIT
 * Found in the quarantine, with the block that it was. */
#include <stdlib.h>
#include <string.h>

int main(void)
{
    char *volatile block = malloc(100);
    free(block);
    block[3] = 1;
    extern int mw_heap_is_valid(void) __attribute__((weak));
    return mw_heap_is_valid == NULL || !mw_heap_is_valid();
    return 0;
}
