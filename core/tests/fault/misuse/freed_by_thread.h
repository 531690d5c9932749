/* SPDX-License-Identifier: MIT
 *
 * A block that another thread has freed. That one does not end, so that what it freed last waits in it.
 */
#include <pthread.h>
#include <stdlib.h>

static pthread_barrier_t freed;

static void *release(void *block)
{
    free(block);
    pthread_barrier_wait(&freed);
    pthread_barrier_wait(&freed);
    return NULL;
}

static void *block_freed_by_thread(void)
{
    void *block = malloc(100);
    pthread_t thread;
    pthread_barrier_init(&freed, NULL, 2);
    pthread_create(&thread, NULL, release, block);
    pthread_barrier_wait(&freed);
    return block;
}
