/* SPDX-License-Identifier: MIT
 *
 * A unit test takes the whole allocator in, so that the static functions of one module can be
 * called, in debug mode with all its assertions. Blocks are not tracked, so that they go the ways that
 * they go in the other builds as well.
 */
#ifndef TEST_UNIT_H
#define TEST_UNIT_H

#define MW_EXPORT_LIBC 0
#define MW_MODE 2
#define MW_CHECK_LEVEL 3
#define MW_TRACK 0
#define MW_TEST_SYSCALLS 1
#include "kernel.h"

#include "../../src/mallow.c"
#undef getauxval

#include "../test.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>

/* Runs `body` in a child that must end by SIGABRT with `sentence` on standard error. */
static inline void check_aborts(void (*body)(void), const char *sentence)
{
    int ends[2];
    char text[8192] = {0};
    CHECK_EQ(pipe(ends), 0);
    pid_t child = fork();
    if (child == 0) {
        dup2(ends[1], 2);
        body();
        _exit(0);
    }
    close(ends[1]);
    size_t used = 0;
    for (ssize_t got; (got = read(ends[0], text + used, sizeof text - 1 - used)) > 0;) {
        used += (size_t)got; /* several lines may come */
    }
    close(ends[0]);
    int status = 0;
    CHECK_EQ(waitpid(child, &status, 0), child);
    CHECK_MSG(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT, "status %#x: %s",
              (unsigned)status, text);
    CHECK_MSG(strstr(text, sentence) != NULL, "'%s' is not in '%s'", sentence, text);
}

#endif
