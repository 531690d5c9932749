// expect: secure=abort "double free" fast=any debug=abort "double free"
/* SPDX-License-Identifier: MIT
 * Neither of the two threads allocated the block. */
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
    for (int i = 0; i < 2; i++) {
        pthread_t thread;
        pthread_create(&thread, NULL, release, block);
        pthread_join(thread, NULL);
    }
    return 0;
}
