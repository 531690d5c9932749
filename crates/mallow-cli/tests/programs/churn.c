// SPDX-License-Identifier: MIT
/* Threads that allocate and free in an order of their own: what is resident depends a little on
 * where they run. */

#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>

#ifndef TURNS
#define TURNS 20000
#endif

enum { THREADS = 4, HELD = 512 };

static void *churn(void *seed)
{
    uint32_t state = (uint32_t)(uintptr_t)seed;
    void *held[HELD] = {0};
    for (int turn = 0; turn < TURNS; turn++) {
        state = state * 1103515245u + 12345u;
        uint32_t place = (state >> 8) % HELD;
        free(held[place]);
        held[place] = malloc(16 + (state >> 16) % 4000);
    }
    for (int place = 0; place < HELD; place++)
        free(held[place]);
    return NULL;
}

int main(void)
{
    pthread_t threads[THREADS];
    for (uintptr_t n = 0; n < THREADS; n++)
        pthread_create(&threads[n], NULL, churn, (void *)(n + 1));
    for (int n = 0; n < THREADS; n++)
        pthread_join(threads[n], NULL);
    return 0;
}
