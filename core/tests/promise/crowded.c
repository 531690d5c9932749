/* SPDX-License-Identifier: MIT
 *
 * A thousand threads that each replace 50 small blocks over and over, 13 MiB in all: what waits in the quarantines of
 * so many is less than of a few. 8 MiB of the figure are the stacks. The first threads had filled theirs before there were
 * so many.
 */
#include "promise.h"

enum { THREADS = 1000, LIVE = 50, REPLACED = 2000, TRIES = 2000 };

static pthread_barrier_t all_have, measured;

static void *replace(void *argument)
{
    uint64_t random = (uint64_t)(uintptr_t)argument * 7919 + 1;
    char *blocks[LIVE] = {NULL};
    for (size_t i = 0; i < REPLACED; i++) {
        free(blocks[i % LIVE]);
        blocks[i % LIVE] = malloc(16 + test_random(&random) % 497);
        CHECK(blocks[i % LIVE] != NULL);
        *blocks[i % LIVE] = 1;
    }
    pthread_barrier_wait(&all_have);
    pthread_barrier_wait(&measured);
    for (size_t i = 0; i < LIVE; i++) {
        free(blocks[i]);
    }
    return NULL;
}

/* But not so little that a larger block would be handed out again at once: then nothing would have waited. */
static void check_larger_blocks_wait(void)
{
    int again = 0;
    for (int i = 0; i < TRIES; i++) {
        char *volatile block = malloc(20000);
        free(block);
        char *volatile next = malloc(20000);
        again += next == block;
        free(next);
    }
    printf("handed out again at once: %d of %d\n", again, TRIES);
    CHECK_LE(again, TRIES / 2);
}

int main(void)
{
    static pthread_t threads[THREADS];
    size_t before = promise_field("status", "RssAnon:");
    promise_start_crowd(threads, THREADS, replace, (pthread_barrier_t *[]){&all_have, &measured});
    pthread_barrier_wait(&all_have);
    promise_at_most("resident", (promise_field("status", "RssAnon:") - before) / MIB, 165, "MiB");
    check_larger_blocks_wait();
    pthread_barrier_wait(&measured);
    for (size_t i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
    }
    return 0;
}
