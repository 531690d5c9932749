// expect: secure=ok fast=ok debug=abort "which was allocated by new"
/* SPDX-License-Identifier: MIT
 * A module without operators of its own calls, through a pointer as if it were a virtual destructor, the
 * private operator delete of another, which goes on to free by a jump: so free sees the first module as its
 * caller. */
#include <stddef.h>
#include <stdlib.h>

__attribute__((weak)) void *_Znwm(size_t size);
__attribute__((weak)) void _ZdlPv(void *block);

void (*volatile destroy)(void *) = free;

int main(void)
{
    if (_Znwm == NULL) {
        return 0;
    }
    for (size_t size = 1; size < 70000; size += 501) {
        destroy(_Znwm(size));
        _ZdlPv(_Znwm(size));
    }
    return 0;
}
