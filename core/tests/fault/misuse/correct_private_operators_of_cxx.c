// expect: secure=ok fast=ok debug=ok
/* SPDX-License-Identifier: MIT
 * The same in a module that shows that it is of C++: a name that it takes from others, as its exceptions and
 * streams would be. */
#define main use_private_operators
#include "correct_private_operators.c"
#undef main

__attribute__((weak)) void _ZSt9terminatev(void);

int main(int count, char **words)
{
    if (count > 1 && _ZSt9terminatev != NULL) {
        (void)words;
        _ZSt9terminatev();
    }
    return use_private_operators();
}
