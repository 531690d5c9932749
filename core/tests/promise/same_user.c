/* SPDX-License-Identifier: MIT
 *
 * The C library makes each thread follow setuid and its like by a signal, and waits until it has: the purge thread takes it,
 * whether it was started before main, in the child of a fork, or beside threads of the program.
 */
#include "promise.h"

/* Ends by SIGALRM where a thread does not answer. */
static void follow(const char *where)
{
    alarm(PROMISE_PATIENCE_MS / 1000);
    free(malloc(1000)); /* a child has its thread by now */
    CHECK_EQ(setgid(getgid()), 0);
    CHECK_EQ(setuid(getuid()), 0);
    alarm(0);
    printf("%s: all followed\n", where);
    fflush(stdout);
}

static void follow_in_child(const char *where)
{
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        follow(where);
        _exit(0);
    }
    int status = -1;
    CHECK_EQ(waitpid(child, &status, 0), child);
    CHECK_EQ(status, 0);
}

static void *wait_for_end(void *unused)
{
    pause();
    return unused;
}

int main(void)
{
    pthread_t thread;
    follow("at the start");
    follow_in_child("in a child");
    CHECK_EQ(pthread_create(&thread, NULL, wait_for_end, NULL), 0);
    follow("beside a thread");
    follow_in_child("in a child of two threads");
    return 0;
}
