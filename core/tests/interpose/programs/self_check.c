/* SPDX-License-Identifier: MIT
 *
 * self_check [THREADS]: for programs into which the witness cannot be preloaded (another libc, static,
 * another machine). Proves from inside that malloc is Mallow's, then works with it in threads, forks,
 * and prints what came of it.
 */
#define _GNU_SOURCE
#include "mallow.h"
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* Weak: absent, not unresolved, where the library was not preloaded. Only malloc pulls the library
 * out of an archive. */
#pragma weak mw_version
#pragma weak mw_mallinfo2
#pragma weak mw_collect
#pragma weak mw_malloc_usable_size

#define THREADS_MAX 64

static void expect(int holds, const char *what)
{
    if (!holds) {
        fprintf(stderr, "FAILED: %s\n", what);
        exit(1);
    }
}

static size_t bytes_in_use(void)
{
    struct mw_mallinfo2 info = mw_mallinfo2();
    return info.uordblks + info.hblkhd;
}

/* The block of the libc's malloc is known to Mallow and counts in Mallow's books. */
static void prove_that_malloc_is_mallow(void)
{
    size_t size = 30000000;
    expect(mw_version != NULL, "mw_version is there");
    expect(bytes_in_use() < size, "little is in use at the start");
    void *block = malloc(size);
    expect(block != NULL && mw_malloc_usable_size(block) >= size, "the block is Mallow's");
    expect(bytes_in_use() >= size, "the block counts");
    free(block);
    mw_collect(true);
    expect(bytes_in_use() < size, "the freed block counts no more");
}

static void *work(void *argument)
{
    enum { COUNT = 300 };
    unsigned char *blocks[COUNT] = {NULL};
    size_t sizes[COUNT] = {0};
    uint32_t random = (uint32_t)(uintptr_t)argument + 1;
    uintptr_t sum = 0;
    for (int i = 0; i < 60000; i++) {
        random = random * 1664525 + 1013904223;
        size_t slot = (random >> 8) % COUNT;
        if (blocks[slot] != NULL) {
            expect(blocks[slot][0] == (unsigned char)slot, "first byte");
            expect(blocks[slot][sizes[slot] - 1] == (unsigned char)slot, "last byte");
            sum += sizes[slot];
        }
        free(blocks[slot]);
        size_t size = 1 + (random >> 12) % (i % 50 == 0 ? 100000 : 700);
        blocks[slot] = i % 3 == 0 ? calloc(1, size) : malloc(size);
        if (i % 11 == 0) {
            size += 200;
            blocks[slot] = realloc(blocks[slot], size);
        }
        expect(blocks[slot] != NULL, "a block");
        sizes[slot] = size;
        blocks[slot][0] = blocks[slot][size - 1] = (unsigned char)slot;
    }
    for (size_t i = 0; i < COUNT; i++) {
        free(blocks[i]);
    }
    return (void *)sum;
}

static void work_in_child(void)
{
    int status = 0;
    pid_t child = fork();
    if (child == 0) {
        work((void *)7);
        _exit(0);
    }
    expect(child > 0 && waitpid(child, &status, 0) == child && status == 0, "the child ends well");
}

int main(int argc, char **argv)
{
    int threads = argc > 1 ? atoi(argv[1]) : 4;
    pthread_t handles[THREADS_MAX];
    expect(threads >= 1 && threads <= THREADS_MAX, "1 to 64 threads");

    prove_that_malloc_is_mallow();
    for (int i = 0; i < threads; i++) {
        expect(pthread_create(&handles[i], NULL, work, (void *)(uintptr_t)i) == 0, "a thread");
    }
    work_in_child();
    uintptr_t total = 0;
    for (int i = 0; i < threads; i++) {
        void *sum;
        pthread_join(handles[i], &sum);
        total += (uintptr_t)sum;
    }
    work_in_child();

    void *block = NULL;
    expect(posix_memalign(&block, 4096, 10) == 0 && (uintptr_t)block % 4096 == 0, "aligned");
    free(block);
    printf("mallow %s, page %ld, sum %lu\n", mw_version(), sysconf(_SC_PAGESIZE),
           (unsigned long)total);
    return 0;
}
