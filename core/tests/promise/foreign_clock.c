/* SPDX-License-Identifier: MIT
 *
 * A program, or a library before it, may have a clock of its own: one that allocates, takes locks and makes
 * up the time, as libfaketime's does. The allocator reads the kernel's, wherever it looks.
 */
#include <malloc.h>
#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

#include "promise.h"

enum { THREADS = 4, ROUNDS = 200, BLOCKS = 600 };

static atomic_ulong looks;
static pthread_mutex_t clock_lock = PTHREAD_MUTEX_INITIALIZER;

int clock_gettime(clockid_t clock, struct timespec *time)
{
    atomic_fetch_add(&looks, 1);
    pthread_mutex_lock(&clock_lock);
    void *volatile block = malloc(40000);
    free(block);
    pthread_mutex_unlock(&clock_lock);
    (void)clock;
    time->tv_sec = 0; /* time stands still */
    time->tv_nsec = 0;
    return 0;
}

/* Blocks of all ways, often enough for each clock to be looked at. */
static void *work(void *argument)
{
    static const size_t sizes[] = {24, 400, 3000, 20000, 300000};
    void *blocks[BLOCKS];
    for (size_t round = 0; round < ROUNDS; round++) {
        size_t size = sizes[round % 5];
        size_t count = size > 100000 ? 20 : BLOCKS;
        for (size_t i = 0; i < count; i++) {
            blocks[i] = malloc(size + i);
            *(volatile char *)blocks[i] = 1;
        }
        for (size_t i = 0; i < count; i++) {
            free(blocks[i]);
        }
    }
    return argument;
}

int main(void)
{
    pthread_t threads[THREADS];
    for (size_t i = 0; i < THREADS; i++) {
        CHECK_EQ(pthread_create(&threads[i], NULL, work, NULL), 0);
    }
    for (size_t i = 0; i < THREADS; i++) {
        CHECK_EQ(pthread_join(threads[i], NULL), 0);
    }
    malloc_trim(0);
    CHECK_EQ(atomic_load(&looks), 0);
    return 0;
}
