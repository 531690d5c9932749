// expect: secure=abort "free of" fast=any debug=abort "double free"
/* SPDX-License-Identifier: MIT
 * The thread that allocated and freed the block has ended. */
#include <pthread.h>
#include <stdlib.h>

static void *allocate_and_free(void *unused)
{
    (void)unused;
    void *block = malloc(100);
    free(block);
    return block;
}

int main(void)
{
    void *block;
    pthread_t thread;
    pthread_create(&thread, NULL, allocate_and_free, NULL);
    pthread_join(thread, &block);
    free(block);
    return 0;
}
