// expect: secure=ok fast=ok debug=ok
/* SPDX-License-Identifier: MIT
 * No misuse: no sentence and exit code 0, so that the runner is seen to tell the difference. */
#include <stdlib.h>

int main(void)
{
    void *block = malloc(100);
    block = realloc(block, 5000);
    free(block);
    free(NULL);
    return 0;
}
