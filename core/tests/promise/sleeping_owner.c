/* SPDX-License-Identifier: MIT
 *
 * Memory is not stranded with threads that sleep: neither what they own of slabs with free slots, nor
 * what they have freed for others, in the parent and in the child of a fork, nor what is left of a
 * burst of many sizes, once or again and again.
 */
#include <malloc.h>
#include <sys/wait.h>

#include "promise.h"

enum {
    BLOCKS = 400000,
    SLEEPERS = 50,
    EACH = 56,
    LIMIT_KIB = 16 * 1024,
    BURST = 2 * MIB,
    BURST_BLOCKS = 8000
};

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

static uint32_t bursts;

/* Allocates 2 MiB of blocks of 16 to 4,096 bytes, as many of each doubling, and frees them. */
static void burst(char **mine, uint64_t *seed)
{
    size_t count = 0;
    for (size_t sum = 0; sum < BURST; count++) {
        *seed = *seed * 6364136223846793005 + 1442695040888963407;
        size_t size = (size_t)16 << (*seed >> 61);
        size += (*seed >> 33) % size;
        mine[count] = memset(malloc(size), 1, size);
        sum += size;
    }
    for (size_t i = 0; i < count; i++) {
        free(mine[i]);
    }
}

static void *burst_and_sleep(void *argument)
{
    uint64_t seed = (uintptr_t)argument;
    for (uint32_t i = 0; i < bursts; i++) {
        burst(argument, &seed);
    }
    pthread_barrier_wait(&barrier);
    pause();
    return argument;
}

/* Threads are many where a CPU, or arena, has several. */
static bool has_many_threads(void)
{
    const char *settings = getenv("MALLOW_CONF");
    return settings != NULL && strstr(settings, "arenas:2") != NULL;
}

/* In a process of its own: the threads never end. */
static void check_bursts(const char *what, uint32_t count)
{
    pid_t child = fork();
    if (child == 0) {
        pthread_t thread;
        bursts = count;
        memset(blocks, 0, sizeof blocks); /* all of its pages count, before and after */
        size_t before = promise_field("status", "RssAnon:");
        pthread_barrier_init(&barrier, NULL, 2);
        for (size_t i = 0; i < SLEEPERS; i++) {
            CHECK_EQ(pthread_create(&thread, NULL, burst_and_sleep, &blocks[i * BURST_BLOCKS]), 0);
            pthread_barrier_wait(&barrier);
        }
        malloc_trim(0);
        size_t kib = (promise_field("status", "RssAnon:") - before) / KIB;
        promise_at_most(what, kib, LIMIT_KIB + promise_huge_page() / KIB, "KiB");
        _exit(0);
    }
    int status;
    CHECK_EQ(waitpid(child, &status, 0), child);
    CHECK_EQ(status, 0);
}

static void free_all(const char *who)
{
    for (size_t i = 0; i < BLOCKS; i++) {
        free(blocks[i]);
        blocks[i] = NULL;
    }
    malloc_trim(0);
    promise_at_most(who, promise_field("status", "VmRSS:") / KIB,
                    LIMIT_KIB + promise_huge_page() / KIB, "KiB");
}

int main(void)
{
    pthread_t thread;
    if (has_many_threads()) {
        check_bursts("left of a burst by threads that sleep", 1);
        check_bursts("left of ten bursts by threads that sleep", 10);
    }
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
