// expect: secure=ok fast=ok debug=ok
/* SPDX-License-Identifier: MIT
 * More blocks of no bytes than there are addresses without access for; by two threads, and resized. */
#include <malloc.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCKS = 50000 };

static void *use(void *blocks_of)
{
    char **blocks = blocks_of;
    for (int i = 0; i < BLOCKS; i++) {
        blocks[i] = i % 3 == 0 ? calloc(0, 8) : malloc(0);
        if (blocks[i] == NULL || (i > 0 && blocks[i] == blocks[i - 1])) {
            return blocks;
        }
    }
    for (int i = 0; i < BLOCKS; i++) {
        if (i % 100 == 0) {
            blocks[i] = realloc(blocks[i], i == 0 ? 100000 : 100);
            memset(blocks[i], 1, 100);
        }
        if (i % 100 == 1) {
            malloc_usable_size(blocks[i]);
            blocks[i] = realloc(blocks[i], 0);
        }
    }
    return NULL;
}

int main(void)
{
    static char *blocks[2][BLOCKS];
    pthread_t thread;
    void *other;
    if (pthread_create(&thread, NULL, use, blocks[1]) != 0) {
        return 1;
    }
    void *mine = use(blocks[0]);
    pthread_join(thread, &other);
    for (int i = 0; i < BLOCKS; i++) {
        free(blocks[0][i]);
        free(blocks[1][i]);
    }
    return mine != NULL || other != NULL;
}
