// expect: secure=abort "which was allocated by new[]" fast=any debug=abort "which was allocated by new[]"
/* SPDX-License-Identifier: MIT
 * delete of what new[] made: told without an option. */
#include <stddef.h>

__attribute__((weak)) void *_Znam(size_t size);
__attribute__((weak)) void _ZdlPv(void *block);

int main(void)
{
    _ZdlPv(_Znam(40));
    return 0;
}
