// expect: secure=abort "double free" fast=any debug=abort "double free"
/* SPDX-License-Identifier: MIT
 * A block that waits in one thread's quarantine is freed by another thread. */
#include <pthread.h>
#include <stdlib.h>

static void *release(void *block)
{
    free(block);
    return NULL;
}

int main(void)
{
    free(malloc(1));
    void *block = malloc(5000);
    free(block);
    pthread_t thread;
    pthread_create(&thread, NULL, release, block);
    pthread_join(thread, NULL);
    return 0;
}
