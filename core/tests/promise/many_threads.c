/* SPDX-License-Identifier: MIT
 *
 * A thousand threads with 100 small blocks each, 13 MiB in all: they share the pages of their first
 * blocks. 8 MiB of the figure are the stacks.
 */
#include "promise.h"

enum { THREADS = 1000, LIVE = 100 };

static pthread_barrier_t all_have, measured;

static void *hold(void *argument)
{
    uint64_t random = (uint64_t)(uintptr_t)argument * 7919 + 1;
    unsigned char *blocks[LIVE];
    size_t sizes[LIVE];
    for (size_t i = 0; i < LIVE; i++) {
        sizes[i] = 16 + test_random(&random) % 240;
        blocks[i] = malloc(sizes[i]);
        CHECK(blocks[i] != NULL);
        memset(blocks[i], (int)i, sizes[i]);
    }
    pthread_barrier_wait(&all_have);
    pthread_barrier_wait(&measured);
    for (size_t i = 0; i < LIVE; i++) {
        CHECK(blocks[i][0] == i && blocks[i][sizes[i] - 1] == i);
        free(blocks[i]);
    }
    return NULL;
}

int main(void)
{
    static pthread_t threads[THREADS];
    size_t before = promise_field("status", "RssAnon:");
    promise_start_crowd(threads, THREADS, hold, (pthread_barrier_t *[]){&all_have, &measured});
    pthread_barrier_wait(&all_have);
    promise_at_most("resident", (promise_field("status", "RssAnon:") - before) / MIB, 40, "MiB");
    pthread_barrier_wait(&measured);
    for (size_t i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
    }
    return 0;
}
