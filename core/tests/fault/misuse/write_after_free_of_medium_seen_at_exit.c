// expect: secure=abort "after free: byte 10000 of" fast=any debug=abort "after free: byte 10000 of"
/* SPDX-License-Identifier: MIT
 * The middle of a block that another thread freed, and that still waits when the program ends. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { SIZE = 20000 };

static void *release(void *block)
{
    free(block);
    return NULL;
}

int main(void)
{
    pthread_t thread;
    char *volatile block = malloc(SIZE);
    memset(block, 1, SIZE);
    pthread_create(&thread, NULL, release, block);
    pthread_join(thread, NULL);
    block[SIZE / 2] = 3;
    return 0;
}
