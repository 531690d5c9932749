// expect: secure=abort "write after free" fast=any debug=abort "write after free"
/* SPDX-License-Identifier: MIT
 * The link of a block that another thread has freed leads to a free block that is too small. */
#include <pthread.h>
#include <stdlib.h>

enum { COUNT = 40 };

static void **blocks[COUNT];

static void *free_all(void *unused)
{
    for (int i = 0; i < COUNT; i++) {
        free(blocks[i]);
    }
    return unused;
}

int main(void)
{
    pthread_t thread;
    void *small = malloc(16);
    for (int i = 0; i < COUNT; i++) {
        blocks[i] = malloc(1000);
    }
    free(small);
    pthread_create(&thread, NULL, free_all, NULL);
    pthread_join(thread, NULL);
    for (int i = 0; i < COUNT; i++) {
        *blocks[i] = small;
    }
    for (int i = 0; i < 10000; i++) {
        malloc(1000);
    }
    return 0;
}
