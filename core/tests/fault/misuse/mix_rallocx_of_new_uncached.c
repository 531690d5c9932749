// expect: secure=any fast=any debug=abort "which was allocated by new"
/* SPDX-License-Identifier: MIT
 * rallocx, past the caches, of what operator new made: told without an option. */
#include <stddef.h>
#include <stdlib.h>

__attribute__((weak)) void *_Znwm(size_t size);
__attribute__((weak)) void *rallocx(void *block, size_t size, int flags);

int main(void)
{
    void *volatile block = _Znwm(100);
    block = rallocx(block, 200, 1 << 8);
    return 0;
}
