// expect: fast=any secure=any debug=abort "underflow of "
/* SPDX-License-Identifier: MIT
 * In front of a large block that begins with a page. */
#include <stdlib.h>
#include <string.h>

int main(void)
{
    char *volatile block = aligned_alloc(4096, 400000);
    block[-3] = 1;
    free(block);
    return 0;
}
