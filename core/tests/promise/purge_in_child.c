/* SPDX-License-Identifier: MIT
 *
 * The child of a fork has a purge thread of its own from the fork on: what its parent had freed, half of it by a thread
 * that the child does not have, goes back although the child makes no call. The purge thread runs.
 */
#include "promise.h"

enum {
    SMALL = 50000,
    SMALL_SIZE = 700,
    LARGE = 32,
    ROUNDS = 10,
    LOOKS = 600,
    LOOK_MS = 50,
    FREED_LEAST = 16 * MIB,
    LEFT_MOST = 10 * MIB
};

/* What a child ends with if all had gone before the fork. */
enum { TOO_LATE = 2 };

static void *small[SMALL], *large[LARGE];
static pthread_barrier_t both; /* all is taken; all is freed; the child has ended */

static void take_and_free(void **blocks, size_t count, size_t size)
{
    for (size_t i = 0; i < count; i++) {
        blocks[i] = memset(malloc(size), 1, size);
    }
    pthread_barrier_wait(&both);
    for (size_t i = 0; i < count; i++) {
        free(blocks[i]);
    }
    pthread_barrier_wait(&both);
}

static void *free_and_sleep(void *unused)
{
    take_and_free(large, LARGE, MIB);
    pthread_barrier_wait(&both);
    return unused;
}

static size_t resident(void)
{
    return promise_field("status", "VmRSS:");
}

/* Nothing here allocates until the memory has gone, or thirty seconds have. */
static int look_in_child(size_t before)
{
    size_t now = resident();
    if (now < before + FREED_LEAST) {
        return TOO_LATE;
    }
    for (int i = 0; i < LOOKS && now > before + LEFT_MOST; i++) {
        promise_sleep_ms(LOOK_MS);
        now = resident();
    }
    promise_at_most("kept in a child that makes no call", now > before ? (now - before) / KIB : 0,
                    LEFT_MOST / KIB, "KiB");
    return 0;
}

static int fork_once(size_t before)
{
    pthread_t thread;
    CHECK_EQ(pthread_create(&thread, NULL, free_and_sleep, NULL), 0);
    take_and_free(small, SMALL, SMALL_SIZE);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        _exit(look_in_child(before));
    }
    int status;
    CHECK_EQ(waitpid(child, &status, 0), child);
    CHECK(WIFEXITED(status));
    pthread_barrier_wait(&both);
    pthread_join(thread, NULL);
    return WEXITSTATUS(status);
}

int main(void)
{
    pthread_barrier_init(&both, NULL, 2);
    free(malloc(1));
    size_t before = resident();
    int status = TOO_LATE;
    for (int i = 0; i < ROUNDS && status == TOO_LATE; i++) {
        status = fork_once(before);
    }
    CHECK_MSG(status != TOO_LATE, "what was freed had gone before each fork");
    CHECK_EQ(status, 0);
    return 0;
}
