/* SPDX-License-Identifier: MIT
 *
 * Memory is not stranded with threads that sleep: neither what they own of slabs with free slots, nor
 * what they have freed for others, in the parent and in the child of a fork.
 */
#include <malloc.h>
#include <sys/wait.h>

#include "promise.h"

enum { BLOCKS = 400000, SLEEPERS = 50, EACH = 56, LIMIT_KIB = 16 * 1024 };

static char *blocks[BLOCKS];
static char *foreign[SLEEPERS][EACH];
static pthread_barrier_t barrier;

static void *make_and_sleep(void *unused)
{
    for (size_t i = 0; i < BLOCKS; i++) {
        blocks[i] = memset(malloc(200), 1, 200);
    }
    for (size_t i = 0; i < BLOCKS; i += 2) {
        free(blocks[i]);
        blocks[i] = NULL;
    }
    pthread_barrier_wait(&barrier);
    pause();
    return unused;
}

static void *free_and_sleep(void *argument)
{
    char **mine = argument;
    free(malloc(8));
    for (size_t i = 0; i < EACH; i++) {
        free(mine[i]);
    }
    pthread_barrier_wait(&barrier);
    pause();
    return argument;
}

static void free_all(const char *who)
{
    for (size_t i = 0; i < BLOCKS; i++) {
        free(blocks[i]);
        blocks[i] = NULL;
    }
    malloc_trim(0);
    promise_at_most(who, promise_field("status", "VmRSS:") / KIB, LIMIT_KIB, "KiB");
}

int main(void)
{
    pthread_t thread;
    pthread_barrier_init(&barrier, NULL, 2);
    CHECK_EQ(pthread_create(&thread, NULL, make_and_sleep, NULL), 0);
    pthread_barrier_wait(&barrier);
    pid_t child = fork();
    if (child == 0) {
        free_all("child, its parent's slabs freed");
        _exit(0);
    }
    int status;
    CHECK_EQ(waitpid(child, &status, 0), child);
    CHECK_EQ(status, 0);
    free_all("parent, slabs of a sleeping thread freed");

    pthread_barrier_destroy(&barrier);
    pthread_barrier_init(&barrier, NULL, SLEEPERS + 1);
    for (size_t i = 0; i < SLEEPERS; i++) {
        for (size_t j = 0; j < EACH; j++) {
            foreign[i][j] = memset(malloc(32000), 1, 32000);
        }
    }
    for (size_t i = 0; i < SLEEPERS; i++) {
        CHECK_EQ(pthread_create(&thread, NULL, free_and_sleep, foreign[i]), 0);
    }
    pthread_barrier_wait(&barrier);
    free_all("freed by threads that sleep");
    return 0;
}
