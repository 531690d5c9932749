/* SPDX-License-Identifier: MIT
 *
 * Threads that all need memory for the first time at the same moment: one of them maps the next region of an arena, and the
 * others take from that. Address space, which counts against `ulimit -v` and where the system does not overcommit, stays
 * close to what they use. Whether they meet is chance: each round is a process of its own.
 */
#include <sys/wait.h>

#include "promise.h"

enum { ROUNDS = 12, THREADS = 900, BLOCKS = 64, STACK = 64 * KIB };

static pthread_barrier_t begin, end;

static void *allocate_some(void *argument)
{
    void *blocks[BLOCKS];
    pthread_barrier_wait(&begin);
    for (size_t i = 0; i < BLOCKS; i++) {
        blocks[i] = malloc(i * 53 % 2048 + 1);
        CHECK(blocks[i] != NULL);
        *(volatile char *)blocks[i] = 1;
    }
    pthread_barrier_wait(&end);
    for (size_t i = 0; i < BLOCKS; i++) {
        free(blocks[i]);
    }
    return argument;
}

static void run(void)
{
    static pthread_t threads[THREADS];
    pthread_attr_t attributes;
    pthread_barrier_init(&begin, NULL, THREADS + 1);
    pthread_barrier_init(&end, NULL, THREADS + 1);
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, STACK);
    for (size_t i = 0; i < THREADS; i++) {
        CHECK_EQ(pthread_create(&threads[i], &attributes, allocate_some, NULL), 0);
    }
    size_t space = promise_field("status", "VmSize:"),
           resident = promise_field("smaps_rollup", "Rss:");
    pthread_barrier_wait(&begin);
    pthread_barrier_wait(&end);
    space = promise_field("status", "VmSize:") - space;
    resident = promise_field("smaps_rollup", "Rss:") - resident;
    for (size_t i = 0; i < THREADS; i++) {
        CHECK_EQ(pthread_join(threads[i], NULL), 0);
    }
    /* Of the last region most may be unused. */
    size_t unused = space > resident ? space - resident : 0;
    promise_at_most("address space beside what is resident", unused / MIB, 128, "MiB");
}

int main(void)
{
    for (int i = 0; i < ROUNDS; i++) {
        int status = -1;
        pid_t child = fork();
        if (child == 0) {
            run();
            _exit(0);
        }
        CHECK_EQ(waitpid(child, &status, 0), child);
        CHECK_EQ(status, 0);
    }
    return 0;
}
