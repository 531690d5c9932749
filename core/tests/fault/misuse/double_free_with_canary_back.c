// expect: secure=abort "double free" fast=any debug=any
/* SPDX-License-Identifier: MIT
 * The program writes back what stood behind the block when it still held it. */
#include <pthread.h>
#include <stdlib.h>

static void *release(void *block)
{
    free(block);
    return NULL;
}

static void release_by_thread(void *block)
{
    pthread_t thread;
    pthread_create(&thread, NULL, release, block);
    pthread_join(thread, NULL);
}

int main(void)
{
    unsigned long *block = malloc(72);
    unsigned long canary = block[9];
    release_by_thread(block);
    block[9] = canary;
    release_by_thread(block);
    return 0;
}
