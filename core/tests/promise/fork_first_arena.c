/* SPDX-License-Identifier: MIT
 *
 * Fork handlers that were registered before the allocator's run while it holds its locks for the fork.
 * What they allocate is the first of their thread, so that an arena is made there.
 */
#include <sys/wait.h>

#include "promise.h"

static void allocate(void)
{
    enum { BLOCKS = 20 };
    void *blocks[BLOCKS];
    for (size_t i = 0; i < BLOCKS; i++) {
        blocks[i] = malloc((size_t)1 << i);
    }
    for (size_t i = 0; i < BLOCKS; i++) {
        free(blocks[i]);
    }
}

/* Before the constructors of all libraries. */
static void register_handlers(void)
{
    CHECK_EQ(pthread_atfork(allocate, allocate, allocate), 0);
}

__attribute__((section(".preinit_array"),
               used)) static void (*const first)(void) = register_handlers;

static void *fork_first(void *unused)
{
    pid_t child = fork();
    if (child == 0) {
        allocate();
        _exit(0);
    }
    int status = -1;
    CHECK_EQ(waitpid(child, &status, 0), child);
    CHECK_EQ(status, 0);
    allocate();
    return unused;
}

int main(void)
{
    alarm(60); /* a deadlock ends the program */
    fork_first(NULL);
    for (int i = 0; i < 10; i++) {
        pthread_t thread;
        CHECK_EQ(pthread_create(&thread, NULL, fork_first, NULL), 0);
        CHECK_EQ(pthread_join(thread, NULL), 0);
    }
    return 0;
}
