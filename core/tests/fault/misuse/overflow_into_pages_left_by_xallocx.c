// expect: secure=any fast=any debug=abort "overflow of"
/* SPDX-License-Identifier: MIT
 * A block becomes smaller by pages where it is, and is written to where it was before. */
#include <stdlib.h>

__attribute__((weak)) size_t xallocx(void *block, size_t size, size_t extra, int flags);

int main(void)
{
    char *volatile block = malloc(400000);
    xallocx(block, 200000, 0, 0);
    block[399000] = 1;
    free(block);
    return 0;
}
