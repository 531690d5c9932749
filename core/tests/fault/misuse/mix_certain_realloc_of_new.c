// expect: secure=abort "realloc of" fast=any debug=abort "which was allocated by new"
/* SPDX-License-Identifier: MIT
 * realloc of what operator new made, of a page: told without an option. */
#include <stddef.h>
#include <stdlib.h>

__attribute__((weak)) void *_Znwm(size_t size);

int main(void)
{
    void *volatile block = _Znwm(4096);
    block = realloc(block, 8192);
    return 0;
}
