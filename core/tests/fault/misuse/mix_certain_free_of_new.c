// expect: secure=abort "which was allocated by new" fast=any debug=abort "which was allocated by new"
/* SPDX-License-Identifier: MIT
 * free of what operator new made, in a module that has no operators of its own: told without an option. */
#include <stddef.h>
#include <stdlib.h>

__attribute__((weak)) void *_Znwm(size_t size);

int main(void)
{
    free(_Znwm(40));
    return 0;
}
