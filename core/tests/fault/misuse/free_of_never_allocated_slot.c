// expect: secure=abort "free of" fast=any debug=abort "free of"
/* SPDX-License-Identifier: MIT
 * The slot behind the only block of its class. */
#include <malloc.h>
#include <stdlib.h>

int main(void)
{
    char *block = malloc(5000);
    free(block + malloc_usable_size(block));
    return 0;
}
