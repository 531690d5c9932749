// SPDX-License-Identifier: MIT
//
// A program of four threads for tools/explain-table: each replaces blocks of 1 byte to 3 MiB at
// random, then frees every second one, and rests. It counts what it holds itself.

#include <malloc.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { THREADS = 4, BLOCKS = 60000, ROUNDS = 400000 };

static char *blocks[THREADS][BLOCKS];
static _Atomic size_t held;
static pthread_barrier_t done;

// What tools/own-count.c asks for where the allocator has no count of its own.
size_t explain_load_held(void);
size_t explain_load_held(void) { return held; }

static unsigned next(unsigned *state)
{
    *state = *state * 1103515245 + 12345;
    return *state >> 8;
}

static size_t any_size(unsigned *state)
{
    unsigned kind = next(state);
    if (kind % 1000 == 0) return 200000 + next(state) % 3000000;
    if (kind % 20 == 0) return 2000 + next(state) % 40000;
    return 1 + next(state) % 600;
}

static void *work(void *mine)
{
    char **own = mine;
    unsigned state = (unsigned)((own - blocks[0]) / BLOCKS) * 7919 + 1;
    for (int i = 0; i < ROUNDS; i++) {
        char **block = &own[next(&state) % BLOCKS];
        size_t size = any_size(&state);
        free(*block);
        *block = malloc(size);
        memset(*block, 1, size);
    }
    for (int i = 0; i < BLOCKS; i += 2) {
        free(own[i]);
        own[i] = NULL;
    }
    for (int i = 0; i < BLOCKS; i++) held += own[i] ? malloc_usable_size(own[i]) : 0;
    pthread_barrier_wait(&done);
    for (;;) pause();
}

int main(void)
{
    pthread_barrier_init(&done, NULL, THREADS + 1);
    for (int i = 0; i < THREADS; i++) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, work, blocks[i]) != 0) return 1;
    }
    pthread_barrier_wait(&done);
    puts("ready");
    fflush(stdout);
    for (;;) pause(); // a signal asks for the count
}
