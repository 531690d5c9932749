// expect: secure=abort "double free" fast=any debug=abort "double free"
/* SPDX-License-Identifier: MIT
 * Both the allocating thread and another one free the block. */
#include <pthread.h>
#include <stdlib.h>

static void *release(void *block)
{
    free(block);
    return NULL;
}

int main(void)
{
    void *block = malloc(100);
    pthread_t thread;
    pthread_create(&thread, NULL, release, block);
    pthread_join(thread, NULL);
    free(block);
    return 0;
}
