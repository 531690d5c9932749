// expect: secure=ok fast=any debug=ok
/* SPDX-License-Identifier: MIT
 * Standard error is a full pipe that nobody reads: the report is written, and the program ends. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static void misuse(void)
{
    static char bytes[4096];
    int ends[2];
    pipe2(ends, O_NONBLOCK);
    while (write(ends[1], bytes, sizeof bytes) > 0) {
    }
    fcntl(ends[1], F_SETFL, 0);
    dup2(ends[1], 2);
    char *volatile block = malloc(48);
    char *volatile other = malloc(48);
    free(block);
    free(other);
    free(block);
    _exit(0); /* the fast build may say nothing */
}

static int ends_by_itself(pid_t child)
{
    int status = 0;
    for (int i = 0; i < 3000; i++) {
        if (waitpid(child, &status, WNOHANG) == child) {
            return WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT;
        }
        usleep(10000);
    }
    kill(child, SIGKILL);
    return 0;
}

int main(int count, char **words)
{
    const char *path = getenv("MALLOW_FAULT_REPORT");
    if (path == NULL) {
        char name[] = "/tmp/mallow-report-XXXXXX";
        close(mkstemp(name));
        setenv("MALLOW_FAULT_REPORT", name, 1);
        return execv("/proc/self/exe", words);
    }
    pid_t child = fork();
    if (child == 0) {
        misuse();
    }
    int has_ended = ends_by_itself(child);
    static char report[65536];
    int fd = open(path, O_RDONLY);
    int is_whole = read(fd, report, sizeof report - 1) > 0 && strstr(report, "\nend\n") != NULL;
    unlink(path);
    return !has_ended || !is_whole;
}
