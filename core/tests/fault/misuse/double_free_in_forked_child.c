// expect: fast=any secure=abort "double free" debug=abort "double free"
/* SPDX-License-Identifier: MIT
 * In the child of a program whose other threads allocate all the time: the child says it and ends. */
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static void *churn(void *argument)
{
    for (;;) {
        free(malloc(100));
    }
    return argument;
}

int main(void)
{
    pthread_t thread;
    pthread_create(&thread, NULL, churn, NULL);
    usleep(10000);
    pid_t child = fork();
    if (child == 0) {
        char *volatile block = malloc(48);
        char *volatile other = malloc(48);
        free(block);
        free(other);
        free(block);
        _exit(0);
    }
    int status;
    waitpid(child, &status, 0);
    if (WIFSIGNALED(status)) {
        signal(WTERMSIG(status), SIG_DFL);
        kill(getpid(), WTERMSIG(status));
    }
    return 0;
}
