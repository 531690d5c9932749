/* SPDX-License-Identifier: MIT
 *
 * The child of a process with threads has of its own only the pages that it writes: what it does to use again what the
 * parent's threads left free does not write the links of free slots anew, which lie on most pages of the heap.
 */
#include "promise.h"

enum { THREADS = 8, BLOCKS = 12000, FREED_OF = 7, CALLS = 31, MOST_OF = 2 };

static pthread_barrier_t are_done;

static void *hold_blocks(void *unused)
{
    static _Thread_local void *blocks[BLOCKS];
    for (size_t i = 0; i < BLOCKS; i++) {
        blocks[i] = malloc(32 + i * 37 % 480);
        CHECK(blocks[i] != NULL);
        memset(blocks[i], 1, 32);
    }
    for (size_t i = 0; i < BLOCKS; i += FREED_OF) {
        free(blocks[i]);
    }
    pthread_barrier_wait(&are_done);
    pause();
    return unused;
}

int main(void)
{
    CHECK_EQ(pthread_barrier_init(&are_done, NULL, THREADS + 1), 0);
    for (int i = 0; i < THREADS; i++) {
        pthread_t thread;
        CHECK_EQ(pthread_create(&thread, NULL, hold_blocks, NULL), 0);
    }
    pthread_barrier_wait(&are_done);
    promise_sleep_ms(100); /* they pause */
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        size_t before = promise_field("smaps_rollup", "Private_Dirty:");
        for (int i = 0; i < CALLS; i++) {
            *(volatile char *)malloc(50) = 1;
        }
        size_t grown = promise_growth(before, promise_field("smaps_rollup", "Private_Dirty:"));
        size_t held = promise_field("smaps_rollup", "Rss:");
        printf("of %zu KiB that the child has\n", held / KIB);
        promise_at_most("the child's own after its first calls", grown / KIB, held / KIB / MOST_OF,
                        "KiB");
        _exit(0);
    }
    int status = -1;
    CHECK_EQ(waitpid(child, &status, 0), child);
    CHECK_EQ(status, 0);
    return 0;
}
