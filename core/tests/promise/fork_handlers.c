/* SPDX-License-Identifier: MIT
 *
 * A program that registers its fork handlers before its first allocation, and allocates in them: they
 * run while the allocator holds its locks for the fork.
 */
#include <sys/syscall.h>
#include <sys/wait.h>

#include "promise.h"

static void allocate(void)
{
    enum { BLOCKS = 200 };
    static void *blocks[BLOCKS];
    for (size_t i = 0; i < BLOCKS; i++) {
        blocks[i] = malloc(20000 + 100 * i);
    }
    for (size_t i = 0; i < BLOCKS; i++) {
        free(blocks[i]);
    }
}

int main(void)
{
    alarm(60); /* a deadlock ends the program */
    if (pthread_atfork(allocate, allocate, allocate) != 0) {
        return 1;
    }
    free(malloc(10));
    pid_t child = fork();
    if (child == 0) {
        allocate();
        _exit(0);
    }
    int status;
    CHECK_EQ(waitpid(child, &status, 0), child);
    CHECK_EQ(status, 0);
    allocate();
    return 0;
}
