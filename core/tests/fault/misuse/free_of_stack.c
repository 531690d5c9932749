// expect: secure=abort "which mallow did not allocate" fast=abort "which mallow did not allocate" debug=abort "which mallow did not allocate"
/* SPDX-License-Identifier: MIT
 * The address of a local variable. */
#include <stdlib.h>

int main(void)
{
    _Alignas(16) char local[64];
    free(local);
    return 0;
}
