// expect: secure=abort "overflow of" fast=any debug=abort "overflow of"
/* SPDX-License-Identifier: MIT
 * Another thread writes behind the block and frees it. */
#include <pthread.h>
#include <stdlib.h>

static void *overflow(void *block)
{
    ((char *)block)[100] ^= 1;
    free(block);
    return NULL;
}

int main(void)
{
    pthread_t thread;
    pthread_create(&thread, NULL, overflow, malloc(100));
    pthread_join(thread, NULL);
    return 0;
}
