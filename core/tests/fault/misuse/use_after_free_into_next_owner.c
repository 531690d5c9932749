// expect: secure=ok fast=any debug=any
/* SPDX-License-Identifier: MIT
 * The block that is allocated next is not the one that was just freed: what is written through the
 * old pointer reaches nobody. */
#include <stdlib.h>

int main(void)
{
    for (int i = 0; i < 1000; i++) {
        void *freed = malloc(64);
        free(freed);
        void *next = malloc(64);
        if (next == freed) {
            abort();
        }
        free(next);
    }
    return 0;
}
