// expect: secure=ok fast=ok debug=ok
/* SPDX-License-Identifier: MIT
 * A handler of a signal ends the program, wherever the allocator is at that moment. POSIX has only _exit there; but many
 * programs do it, and a lock that the thread holds must not end them otherwise. */
#include <signal.h>
#include <stdlib.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

enum { TIMES = 40 };

static void leave(int number)
{
    (void)number;
    exit(0);
}

/* Most of the time of such calls a lock is held. */
static void allocate_for_ever(long us)
{
    struct itimerval timer = {.it_value = {0, us}};
    signal(SIGALRM, leave);
    setitimer(ITIMER_REAL, &timer, NULL);
    for (;;) {
        free(malloc(100000));
    }
}

int main(void)
{
    for (int i = 0; i < TIMES; i++) {
        pid_t child = fork();
        if (child == 0) {
            allocate_for_ever(2000 + 37 * i);
        }
        int status;
        waitpid(child, &status, 0);
        if (status != 0) {
            return 1;
        }
    }
    return 0;
}
