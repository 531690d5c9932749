/* SPDX-License-Identifier: MIT
 *
 * Promise 2, honest VIRT: ten threads that malloc(8) cost their stacks and at most 24 MiB of
 * address space. (glibc: 64 MiB for each thread.) Compared with the same program state before the
 * threads, in which the libraries and the first region are mapped already.
 */
#include "promise.h"

enum { THREADS = 10, STACK = 8 * MIB, GUARD = 4 * KIB };

static pthread_barrier_t all_there, all_done;

static void *allocate_eight(void *unused)
{
    char *volatile block = malloc(8);
    CHECK(block != NULL);
    block[0] = 1;
    pthread_barrier_wait(&all_there);
    pthread_barrier_wait(&all_done);
    free(block);
    return unused;
}

int main(void)
{
    pthread_t threads[THREADS];
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, STACK);
    pthread_barrier_init(&all_there, NULL, THREADS + 1);
    pthread_barrier_init(&all_done, NULL, THREADS + 1);
    size_t before = promise_field("status", "VmSize:");
    for (int i = 0; i < THREADS; i++) {
        CHECK_EQ(pthread_create(&threads[i], &attributes, allocate_eight, NULL), 0);
    }
    pthread_barrier_wait(&all_there);
    size_t during = promise_field("status", "VmSize:");
    pthread_barrier_wait(&all_done);
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
    }
    size_t stacks = (size_t)THREADS * (STACK + GUARD);
    promise_at_most("VIRT of ten threads that malloc(8), beside their stacks",
                    during > before + stacks ? (during - before - stacks) / KIB : 0, 24 * KIB,
                    "KiB");
    return 0;
}
