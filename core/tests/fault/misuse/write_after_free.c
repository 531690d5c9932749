// expect: secure=abort "write after free" fast=any debug=abort "write after free"
/* SPDX-License-Identifier: MIT
 * A write into a free block, found when the slot is used again. */
#include <stdlib.h>
#include <string.h>

int main(void)
{
    char *volatile block = malloc(100);
    free(block);
    memset(block + 40, 1, 10);
    for (int i = 0; i < 10000; i++) {
        if (malloc(100) == NULL) {
            return 1;
        }
    }
    return 0;
}
