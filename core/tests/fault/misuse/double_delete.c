// expect: secure=abort "double free" fast=any debug=abort "double free"
/* SPDX-License-Identifier: MIT
 * operator delete after operator delete. */
#include <stddef.h>

__attribute__((weak)) void *_Znwm(size_t size);
__attribute__((weak)) void _ZdlPv(void *block);

int main(void)
{
    void *block = _Znwm(40), *other = _Znwm(40);
    _ZdlPv(block);
    _ZdlPv(other);
    _ZdlPv(block);
    return 0;
}
