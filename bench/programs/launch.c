/* SPDX-License-Identifier: MIT
 *
 * launch FILE COMMAND ...: runs the command and writes into FILE its seconds on the wall clock, its
 * CPU seconds, and the peak of resident memory in KiB of the largest of its processes, all waited-for
 * descendants included. Between the runner and the program, because a process begins with the peak
 * of the one that forked it: this one is small. Ends with the status of the command.
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static double seconds(struct timeval t) { return (double)t.tv_sec + (double)t.tv_usec / 1e6; }

int main(int argc, char **argv) {
    if (argc < 3) return 2;
    double start = now();
    pid_t child = fork();
    if (child == 0) {
        execvp(argv[2], argv + 2);
        _exit(127);
    }
    int status;
    struct rusage used;
    if (child < 0 || wait4(child, &status, 0, &used) != child) return 2;
    double wall = now() - start;
    FILE *file = fopen(argv[1], "w");
    if (file == NULL) return 2;
    fprintf(file, "%.6f %.6f %ld\n", wall, seconds(used.ru_utime) + seconds(used.ru_stime),
            used.ru_maxrss);
    if (fclose(file) != 0) return 2;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
