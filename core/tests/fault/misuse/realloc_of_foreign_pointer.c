// expect: secure=abort "realloc of" fast=abort "realloc of" debug=abort "realloc of"
/* SPDX-License-Identifier: MIT
 * realloc of a variable. */
#include <stdlib.h>

static _Alignas(16) char variable[64];

int main(void)
{
    free(realloc(variable, 100));
    return 0;
}
