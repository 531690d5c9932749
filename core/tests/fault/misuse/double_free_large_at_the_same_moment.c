// expect: secure=abort "double free" fast=any debug=abort "double free"
/* SPDX-License-Identifier: MIT
 * Two threads free one block of pages at the same moment: one of them is told, each time. */
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

enum { TIMES = 300 };

static atomic_int ready, done;

static void *release(void *block)
{
    free(malloc(10)); /* a heap of its own: without one threads take turns */
    atomic_fetch_add(&ready, 1);
    while (atomic_load(&ready) < 2) {
    }
    free(block);
    atomic_fetch_add(&done, 1);
    for (;;) {
        pause(); /* what it holds stays where it is */
    }
}

static void free_twice(size_t size)
{
    void *block = malloc(size);
    pthread_t threads[2];
    for (int i = 0; i < 2; i++) {
        pthread_create(&threads[i], NULL, release, block);
    }
    while (atomic_load(&done) < 2) {
        usleep(100);
    }
    _exit(0);
}

int main(void)
{
    for (int i = 0; i < TIMES; i++) {
        pid_t child = fork();
        if (child == 0) {
            free_twice(i % 2 == 0 ? 200000 : 3000000);
        }
        int status;
        waitpid(child, &status, 0);
        if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGABRT) {
            return 1;
        }
    }
    void *block = malloc(200000);
    free(block);
    free(block);
    return 0;
}
