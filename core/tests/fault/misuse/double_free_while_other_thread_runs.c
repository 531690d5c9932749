// expect: secure=abort "double free" fast=any debug=abort "double free"
/* SPDX-License-Identifier: MIT
 * The first free is by a thread that still runs. */
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
    free(block);
    return 0;
}
