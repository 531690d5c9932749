// expect: secure=abort "write after free" fast=any debug=abort "write after free"
/* SPDX-License-Identifier: MIT
 * The last byte that the program asked for is written after the free. */
#include <stdlib.h>

int main(void)
{
    char *volatile block = malloc(1000);
    free(block);
    block[999] = 1;
    for (int i = 0; i < 10000; i++) {
        if (malloc(1000) == NULL) {
            return 1;
        }
    }
    return 0;
}
