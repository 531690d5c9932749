/* SPDX-License-Identifier: MIT
 *
 * A program that uses up all thread-specific keys before its first allocation. The memory of its
 * threads that end must still go to those that come.
 */
#include "promise.h"

static void *live_and_die(void *unused)
{
    void *volatile blocks[50];
    for (size_t i = 0; i < 50; i++) {
        blocks[i] = malloc(16 << i % 8);
        memset(blocks[i], 1, 16 << i % 8);
    }
    for (size_t i = 0; i < 50; i++) {
        free(blocks[i]);
    }
    return unused;
}

static void run_threads(int count)
{
    for (int i = 0; i < count; i++) {
        pthread_t thread;
        CHECK_EQ(pthread_create(&thread, NULL, live_and_die, NULL), 0);
        CHECK_EQ(pthread_join(thread, NULL), 0);
    }
}

int main(void)
{
    pthread_key_t key;
    while (pthread_key_create(&key, NULL) == 0) {
    }
    run_threads(50);
    size_t before = promise_field("status", "VmRSS:");
    run_threads(promise_rounds(2000, 20000));
    size_t after = promise_field("status", "VmRSS:");
    promise_at_most("grown over the threads", after > before ? (after - before) / KIB : 0, 2 * KIB,
                    "KiB");
    return 0;
}
