// expect: secure=abort "which is free" fast=any debug=abort "free"
/* SPDX-License-Identifier: MIT
 * A thread that still runs has freed the block. */
#include <pthread.h>
#include <stdlib.h>

static pthread_barrier_t freed;

static void *release(void *block)
{
    free(block);
    pthread_barrier_wait(&freed);
    pthread_barrier_wait(&freed); /* does not end, so that what it freed last waits */
    return NULL;
}

int main(void)
{
    char *block = malloc(100);
    pthread_t thread;
    pthread_barrier_init(&freed, NULL, 2);
    pthread_create(&thread, NULL, release, block);
    pthread_barrier_wait(&freed);
    return realloc(block, 200) == NULL;
}
