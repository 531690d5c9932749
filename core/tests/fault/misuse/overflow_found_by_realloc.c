// expect: secure=abort "(100 bytes" fast=any debug=abort "(100 bytes"
/* SPDX-License-Identifier: MIT
 * realloc looks behind the block before it moves it. */
#include <stdlib.h>

int main(void)
{
    char *volatile block = malloc(100);
    block[101] ^= 1;
    free(realloc(block, 5000));
    return 0;
}
