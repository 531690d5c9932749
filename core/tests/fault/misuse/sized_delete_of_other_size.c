// expect: secure=abort "with a size of" fast=any debug=abort "with a size of"
/* SPDX-License-Identifier: MIT
 * Sized operator delete with the size of another class. */
#include <stddef.h>

__attribute__((weak)) void *_Znwm(size_t size);
__attribute__((weak)) void _ZdlPvm(void *block, size_t size);

int main(void)
{
    void *block = _Znwm(40);
    _ZdlPvm(block, 400);
    return 0;
}
