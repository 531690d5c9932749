// expect: secure=ok fast=any debug=ok
/* SPDX-License-Identifier: MIT
 * The child of a fork does not have the report open that another thread writes at that moment. That is a full pipe,
 * so that its writer waits. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

__attribute__((weak)) void free_sized(void *block, size_t size);

static volatile int has_ended; /* the fast build says nothing */

static void *misuse(void *unused)
{
    free_sized(malloc(100), 50);
    has_ended = 1;
    return NULL;
}

/* How many descriptors there are of the same file. */
static int descriptors_of(int fd)
{
    struct stat wanted, other;
    int count = 0;
    fstat(fd, &wanted);
    for (int i = 0; i < 256; i++) {
        count +=
            fstat(i, &other) == 0 && other.st_dev == wanted.st_dev && other.st_ino == wanted.st_ino;
    }
    return count;
}

int main(int count, char **words)
{
    const char *path = getenv("MALLOW_FAULT_REPORT");
    if (path == NULL) {
        static char name[512];
        const char *folder = getenv("TMPDIR");
        snprintf(name, sizeof name, "%s/mallow-report-%d", folder != NULL ? folder : "/tmp",
                 (int)getpid());
        setenv("MALLOW_FAULT_REPORT", name, 1);
        return mkfifo(name, 0600) == 0 ? execv("/proc/self/exe", words) : 2;
    }
    alarm(30);
    static char bytes[4096];
    int reader = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    int filler = open(path, O_WRONLY | O_NONBLOCK | O_CLOEXEC);
    while (write(filler, bytes, sizeof bytes) > 0) {
    }
    close(filler);
    dup2(open("/dev/null", O_WRONLY | O_CLOEXEC), 2);
    pthread_t thread;
    pthread_create(&thread, NULL, misuse, NULL);
    while (!has_ended && descriptors_of(reader) < 2) {
        usleep(1000);
    }
    int status = 1;
    for (int i = 0; i < 50 && status != 0; i++) {
        usleep(100000); /* until it has noted what it has opened */
        pid_t child = fork();
        if (child == 0) {
            _exit(descriptors_of(reader) != 1);
        }
        waitpid(child, &status, 0);
    }
    unlink(path);
    _exit(status != 0);
}
