// expect: secure=abort "inside a block" fast=any debug=abort "inside a block"
/* SPDX-License-Identifier: MIT
 * The same from a thread that does not own the slab. */
#include <pthread.h>
#include <stdlib.h>

static void *release(void *block)
{
    free(block);
    return NULL;
}

int main(void)
{
    char *block = malloc(100);
    pthread_t thread;
    pthread_create(&thread, NULL, release, block + 5);
    pthread_join(thread, NULL);
    return 0;
}
