// expect: secure=abort "realloc of" fast=abort "realloc of" debug=abort "realloc of"
/* SPDX-License-Identifier: MIT
 * reallocarray of a variable. */
#include <stdlib.h>

void *reallocarray(void *block, size_t count, size_t size);

static _Alignas(16) char variable[64];

int main(void)
{
    free(reallocarray(variable, 10, 10));
    return 0;
}
