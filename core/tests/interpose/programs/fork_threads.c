/* SPDX-License-Identifier: MIT
 *
 * fork_threads THREADS FORKS: the main thread forks while the others allocate, free and hand blocks
 * to each other. A child allocates in its only thread, starts one more, and must end well. A child
 * that hangs is ended by its alarm, which counts as a failure.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define SHELF 256

static _Atomic(void *) shelf[SHELF];
static atomic_bool stop;

/* Allocates blocks of many sizes, leaves each on the shelf, and frees what lay there. */
static void churn(unsigned seed, int rounds)
{
    for (int i = 0; i < rounds; i++) {
        seed = seed * 1664525 + 1013904223;
        size_t size = (seed >> 8) % 100 == 0 ? (seed >> 12) % 300000 : (seed >> 12) % 900;
        unsigned char *block = malloc(size + 1);
        if (block == NULL) {
            abort();
        }
        memset(block, (int)(seed & 255), size + 1);
        if (i % 7 == 0) {
            block = realloc(block, size + 100);
        }
        free(atomic_exchange(&shelf[(seed >> 4) % SHELF], block));
    }
}

static void *allocate_until_stop(void *seed)
{
    unsigned mine = (unsigned)(size_t)seed;
    while (!atomic_load(&stop)) {
        churn(mine++, 200);
    }
    return NULL;
}

static void *churn_once(void *seed)
{
    churn((unsigned)(size_t)seed, 500);
    return NULL;
}

static void be_child(int number)
{
    pthread_t thread;
    alarm(20);
    churn((unsigned)number, 500);
    if (pthread_create(&thread, NULL, churn_once, (void *)(size_t)number) != 0) {
        _exit(2);
    }
    pthread_join(thread, NULL);
    if (number % 10 == 0 && fork() == 0) {
        alarm(20);
        churn((unsigned)number, 500);
        _exit(0);
    }
    _exit(0);
}

int main(int argc, char **argv)
{
    int threads = argc > 1 ? atoi(argv[1]) : 16;
    int forks = argc > 2 ? atoi(argv[2]) : 300;
    pthread_t *handles = calloc((size_t)threads, sizeof *handles);
    int failed = 0;

    for (int i = 0; i < threads; i++) {
        pthread_create(&handles[i], NULL, allocate_until_stop, (void *)(size_t)(i * 1000));
    }
    for (int i = 0; i < forks; i++) {
        int status = 0;
        pid_t child = fork();
        if (child == 0) {
            be_child(i);
        }
        if (child < 0 || waitpid(child, &status, 0) != child || status != 0) {
            fprintf(stderr, "child %d: status %#x\n", i, (unsigned)status);
            failed++;
        }
    }
    atomic_store(&stop, true);
    for (int i = 0; i < threads; i++) {
        pthread_join(handles[i], NULL);
    }
    free(handles);
    printf("%d children, %d failed\n", forks, failed);
    return failed != 0;
}
