// expect: secure=abort "which mallow did not allocate" fast=abort "which mallow did not allocate" debug=abort "which mallow did not allocate"
/* SPDX-License-Identifier: MIT
 * The address of a variable of the program. */
#include <stdlib.h>

static _Alignas(16) char variable[64];

int main(void)
{
    free(variable);
    return 0;
}
