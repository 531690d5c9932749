// expect: secure=abort "operator delete of" fast=any debug=abort "operator delete of"
/* SPDX-License-Identifier: MIT
 * operator delete of an address inside a large block. */
#include <stddef.h>

__attribute__((weak)) void *_Znwm(size_t size);
__attribute__((weak)) void _ZdlPv(void *block);

int main(void)
{
    char *block = _Znwm(200000);
    _ZdlPv(block + 4096);
    return 0;
}
