// expect: secure=abort "bytes inside a block" fast=abort "bytes inside a block" debug=abort "bytes inside a block"
/* SPDX-License-Identifier: MIT
 * xallocx of an address inside a large block. */
#include <stdlib.h>

__attribute__((weak)) size_t xallocx(void *block, size_t size, size_t extra, int flags);

int main(void)
{
    char *block = malloc(300000);
    return xallocx(block + 4096, 400000, 0, 0x40) != 0;
}
