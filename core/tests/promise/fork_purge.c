/* SPDX-License-Identifier: MIT
 *
 * A fork while another thread gives memory back: the child has all of it, none is lost on the way.
 */
#include <malloc.h>
#include <stdatomic.h>
#include <sys/wait.h>

#include "promise.h"

enum { ROUNDS = 12, BLOCKS = 16, BLOCK_SIZE = 10 * MIB };

static atomic_int wanted, done;

static void *trim(void *unused)
{
    for (;;) {
        if (atomic_load(&wanted) == atomic_load(&done)) {
            promise_sleep_ms(1);
            continue;
        }
        malloc_trim(0);
        atomic_fetch_add(&done, 1);
    }
    return unused;
}

static int child_status(void)
{
    pid_t child = fork();
    if (child == 0) {
        malloc_trim(0);
        promise_at_most("child after malloc_trim", promise_field("status", "VmRSS:") / KIB,
                        12 * KIB, "KiB");
        _exit(0);
    }
    int status;
    CHECK_EQ(waitpid(child, &status, 0), child);
    return status;
}

int main(void)
{
    pthread_t thread;
    CHECK_EQ(pthread_create(&thread, NULL, trim, NULL), 0);
    for (int round = 0; round < ROUNDS; round++) {
        char *large[BLOCKS], *between[BLOCKS];
        for (size_t i = 0; i < BLOCKS; i++) {
            large[i] = memset(malloc(BLOCK_SIZE), 1, BLOCK_SIZE);
            between[i] = malloc(MIB);
        }
        for (size_t i = 0; i < BLOCKS; i++) {
            free(large[i]);
        }
        atomic_fetch_add(&wanted, 1);
        promise_sleep_ms(round % 6);
        CHECK_EQ(child_status(), 0);
        while (atomic_load(&wanted) != atomic_load(&done)) {
            promise_sleep_ms(1);
        }
        for (size_t i = 0; i < BLOCKS; i++) {
            free(between[i]);
        }
    }
    return 0;
}
