/* SPDX-License-Identifier: MIT
 *
 * In the secure build the blocks of pages that were freed last wait, and nobody gets them; malloc_trim ends that, and so
 * does the decay time, also while the program sleeps. A thread with a heap of its own frees them, or the last one.
 */
#include "promise.h"

#include <malloc.h>
#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

/* The decay time is 200 ms. */
enum { SIZE = 64 * 1024, BLOCKS = 200, WAIT_MS = 60000 };

static char *blocks[BLOCKS];

static void *free_all(void *unused)
{
    for (int i = 0; i < BLOCKS; i++) {
        free(blocks[i]);
    }
    return unused;
}

static bool is_resident(char *block)
{
    unsigned char page = 0;
    char *start = block + SIZE / 2;
    start -= (uintptr_t)start % (size_t)sysconf(_SC_PAGESIZE);
    return mincore(start, 1, &page) == 0 && (page & 1) != 0; /* else its region is gone */
}

static int resident(void)
{
    int count = 0;
    for (int i = 0; i < BLOCKS; i++) {
        count += is_resident(blocks[i]);
    }
    return count;
}

static void allocate_all(void)
{
    for (int i = 0; i < BLOCKS; i++) {
        blocks[i] = malloc(SIZE);
        CHECK(blocks[i] != NULL);
        memset(blocks[i], 1, SIZE);
    }
}

static void free_by_thread(void)
{
    pthread_t thread;
    CHECK_EQ(pthread_create(&thread, NULL, free_all, NULL), 0);
    CHECK_EQ(pthread_join(thread, NULL), 0);
}

/* The blocks that are freed last do not come back at once. No time is over meanwhile, however slow this is. */
static void some_wait(void)
{
    mallopt(M_TRIM_THRESHOLD, -1);
    free_all(NULL);
    for (int i = 0; i < BLOCKS; i++) {
        char *block = malloc(SIZE);
        CHECK(block != blocks[BLOCKS - 1]);
    }
    mallopt(M_TRIM_THRESHOLD, 0); /* as it was */
}

int main(void)
{
    allocate_all();
    some_wait();
    allocate_all();
    free_by_thread();
    malloc_trim(0);
    CHECK_EQ(resident(), 0);

    allocate_all();
    free_by_thread();
    int waited = 0;
    for (; resident() != 0 && waited < WAIT_MS; waited += 100) {
        usleep(100 * 1000);
    }
    promise_at_most("blocks that wait", (size_t)resident(), 0, "blocks");
    return 0;
}
