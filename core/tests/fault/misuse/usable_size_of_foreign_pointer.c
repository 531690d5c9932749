// expect: secure=abort "malloc_usable_size of" fast=ok debug=abort "malloc_usable_size of"
/* SPDX-License-Identifier: MIT
 * malloc_usable_size of a variable: 0, as nothing there belongs to the allocator; secure and debug say so. */
#include <malloc.h>
#include <stdlib.h>

static _Alignas(16) char variable[64];

int main(void)
{
    return malloc_usable_size(variable) != 0;
}
