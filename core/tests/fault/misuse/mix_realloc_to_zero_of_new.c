// expect: secure=any fast=any debug=abort "which was allocated by new"
/* SPDX-License-Identifier: MIT
 * realloc to 0 bytes of what operator new made: told without an option. */
#include <stddef.h>
#include <stdlib.h>

__attribute__((weak)) void *_Znwm(size_t size);

int main(void)
{
    void *volatile block = _Znwm(100);
    block = realloc(block, 0);
    return 0;
}
