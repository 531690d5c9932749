// expect: secure=abort "operator delete[] of" fast=any debug=abort "operator delete[] of"
/* SPDX-License-Identifier: MIT
 * operator delete[] of an address inside what new[] made: the call is told by its name. */
#include <stddef.h>

__attribute__((weak)) void *_Znam(size_t size);
__attribute__((weak)) void _ZdaPv(void *block);

int main(void)
{
    char *block = _Znam(100);
    _ZdaPv(block + 16);
    return 0;
}
