// expect: secure=abort "which is free" fast=any debug=abort "which is free"
/* SPDX-License-Identifier: MIT
 * rallocx, aligned, of a block that is free and would stay where it is. */
#include <stdlib.h>

__attribute__((weak)) void *rallocx(void *block, size_t size, int flags);

int main(void)
{
    char *blocks[2] = {aligned_alloc(64, 128), aligned_alloc(64, 128)};
    free(blocks[0]);
    free(blocks[1]);
    return rallocx(blocks[0], 128, 6) != blocks[0];
}
