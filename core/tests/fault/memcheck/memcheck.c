/* SPDX-License-Identifier: MIT
 *
 * Faults that valgrind finds where the debug build tells it of the blocks: memcheck.py runs one of them.
 */
#include <dlfcn.h>
#include <malloc.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char *opaque(char *block)
{
    char *volatile hidden = block;
    return hidden;
}

/* Blocks of all sizes come, change and go; what is copied stays defined. */
static int clean(void)
{
    enum { BLOCKS = 100 };
    static char *blocks[BLOCKS];
    int sum = 0;
    for (int round = 0; round < 5; round++) {
        for (size_t i = 0; i < BLOCKS; i++) {
            blocks[i] = opaque(malloc(37 * i));
            memset(blocks[i], 1, 37 * i);
            blocks[i] = opaque(realloc(blocks[i], 50 * i + 1));
            sum += i > 0 && blocks[i][37 * i - 1] == 1;
            sum += blocks[i] == NULL;
        }
        for (size_t i = 0; i < BLOCKS; i++) {
            free(blocks[i]);
        }
    }
    char *large = opaque(calloc(1, 100000));
    sum += large[99999];
    large = opaque(realloc(large, 20 << 20));
    large[0] = 1;
    large = opaque(realloc(large, 60 << 20));
    sum += large[0];
    free(large);
    return sum == 5 * 99 + 1 ? 0 : 1;
}

/* Small blocks come where large ones were, what is free is given back, and threads end. */
static void *come_and_go(void *flushes)
{
    enum { BLOCKS = 300 };
    static char *blocks[BLOCKS];
    bool (*heap_is_valid)(void) = dlsym(RTLD_DEFAULT, "mw_heap_is_valid");
    int (*control)(const char *, void *, size_t *, void *, size_t) = dlsym(RTLD_DEFAULT, "mallctl");
    for (size_t round = 0; round < 4; round++) {
        for (size_t i = 0; i < BLOCKS; i++) {
            free(blocks[i]);
            blocks[i] = opaque(malloc(round % 2 == 0 ? 40000 + i * 100 : 1 + i * i % 3000));
            blocks[i][0] = 1;
            if (round % 2 == 0) {
                blocks[i] = opaque(realloc(blocks[i], 120000 - i * 300));
            }
        }
        malloc_trim(0);
        heap_is_valid();
    }
    for (size_t i = 0; i < BLOCKS; i += 2) {
        free(blocks[i]);
        blocks[i] = NULL;
    }
    if (*(bool *)flushes) {
        control("thread.tcache.flush", NULL, NULL, NULL, 0);
    }
    return NULL;
}

static int threads(void)
{
    for (int i = 0; i < 6; i++) {
        pthread_t thread;
        bool flushes = i % 2 != 0;
        pthread_create(&thread, NULL, come_and_go, &flushes);
        pthread_join(thread, NULL);
    }
    return 0;
}

int main(int count, char **words)
{
    const char *fault = count == 2 ? words[1] : "";
    if (strcmp(fault, "clean") == 0) {
        return clean();
    }
    if (strcmp(fault, "threads") == 0) {
        return threads();
    }
    for (int i = 0; i < 20; i++) { /* the next one is in a slot, and no page traps */
        free(opaque(malloc(40)));
    }
    char *block = NULL;
    for (int i = 0; i < 20; i++) {
        char *next = opaque(malloc(40));
        memset(next, 0, 16);
        block = i == 15 ? next : block;
    }
    if (strcmp(fault, "read-behind") == 0) {
        return block[41] == 1;
    }
    if (strcmp(fault, "read-before") == 0) {
        return block[-3] == 1;
    }
    if (strcmp(fault, "read-freed") == 0) {
        free(block);
        return block[5] == 1;
    }
    if (strcmp(fault, "undefined") == 0) {
        return block[20] == 1 ? puts("one") : 0;
    }
    if (strcmp(fault, "undefined-after-realloc") == 0) {
        block = opaque(realloc(block, 80));
        return block[0] != 0 || block[70] == 1 ? puts("one") : 0;
    }
    if (strcmp(fault, "lost") == 0) {
        block = opaque(malloc(1234));
        block = NULL;
        return 0;
    }
    return 2;
}
