// expect: secure=abort "overflow of" fast=any debug=abort "overflow of"
/* SPDX-License-Identifier: MIT
 * mw_heap_is_valid looks behind every block. */
#include <stdbool.h>
#include <stdlib.h>

__attribute__((weak)) bool mw_heap_is_valid(void);

int main(void)
{
    char *volatile block = malloc(100);
    mw_heap_is_valid();
    block[100] ^= 1;
    mw_heap_is_valid();
    return 0;
}
