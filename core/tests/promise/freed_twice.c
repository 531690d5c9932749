/* SPDX-License-Identifier: MIT
 *
 * A block of pages that is freed for the second time when it has left the list that it was freed into is noticed.
 */
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "promise.h"

enum { PAIRS = 600000, SIZE = 100000 };

static char *volatile block, *volatile slot;

static void free_twice(void)
{
    for (unsigned i = 0; i < PAIRS; i++) { /* so that lists are in use */
        block = malloc(SIZE);
        slot = malloc(100);
        *block = *slot = 1;
        free(block);
        free(slot);
    }
    promise_sleep_ms(100); /* so that they are no longer, as soon as the thread calls again */
    for (unsigned i = 0; i < 2000; i++) {
        slot = malloc(100);
        free(slot);
    }
    free(block);
    _exit(0);
}

int main(void)
{
    pid_t child = fork();
    if (child == 0) {
        free_twice();
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
    return 0;
}
