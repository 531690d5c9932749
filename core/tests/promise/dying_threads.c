/* SPDX-License-Identifier: MIT
 *
 * Threads that never call the allocator themselves. As they die, the libc frees for them when they are
 * past all destructors; that must not cost a heap each.
 */
#include <stdatomic.h>

#include "promise.h"

static atomic_int living;

static void *live_and_die(void *unused)
{
    promise_sleep_ms(2);
    atomic_fetch_sub(&living, 1);
    return unused;
}

static void start_threads(int rounds, pthread_attr_t *attributes)
{
    enum { AT_ONCE = 30 }; /* more stacks than the libc keeps */
    for (int round = 0; round < rounds; round++) {
        for (int i = 0; i < AT_ONCE; i++) {
            pthread_t thread;
            atomic_fetch_add(&living, 1);
            CHECK_EQ(pthread_create(&thread, attributes, live_and_die, NULL), 0);
        }
        while (atomic_load(&living) != 0) {
            promise_sleep_ms(1);
        }
    }
}

int main(void)
{
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    start_threads(20, &attributes);
    size_t before = promise_field("status", "VmRSS:");
    int rounds = promise_rounds(150, 3000);
    start_threads(rounds, &attributes);
    size_t after = promise_field("status", "VmRSS:");
    promise_at_most("grown over the threads", after > before ? (after - before) / KIB : 0, 2 * KIB,
                    "KiB");
    return 0;
}
