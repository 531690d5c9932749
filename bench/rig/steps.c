/* SPDX-License-Identifier: MIT
 *
 * steps PROGRAM ARGUMENTS ...: counts the instructions of malloc and of free by single steps, for
 * allocators that do not run under valgrind (hundreds of GiB of address space). The program stops
 * itself once it has written the line `addresses MALLOC FREE TEXT-START TEXT-END`; from there to its
 * next stop, what runs outside its own text from the first instruction of malloc on belongs to malloc,
 * and so for free. Prints `malloc N` and `free N`.
 */
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

static FILE *start(char **command, pid_t *child) {
    int ends[2];
    if (pipe(ends) != 0 || (*child = fork()) < 0) exit(2);
    if (*child == 0) {
        dup2(ends[1], STDOUT_FILENO);
        close(ends[0]);
        close(ends[1]);
        ptrace(PTRACE_TRACEME, 0, NULL, NULL);
        /* The tracer itself is not to be served by what it measures. */
        if (getenv("STEPS_PRELOAD")) setenv("LD_PRELOAD", getenv("STEPS_PRELOAD"), 1);
        execvp(command[0], command);
        _exit(127);
    }
    close(ends[1]);
    return fdopen(ends[0], "r");
}

/* The program counter of the stopped child. */
static unsigned long place(pid_t child) {
    struct user_regs_struct registers;
    if (ptrace(PTRACE_GETREGS, child, NULL, &registers) != 0) exit(2);
#if defined(__x86_64__)
    return registers.rip;
#else
    return registers.pc;
#endif
}

int main(int argc, char **argv) {
    pid_t child;
    int status;
    char line[8192];
    unsigned long malloc_at = 0, free_at = 0, text = 0, text_end = 0;
    if (argc < 2) return 2;
    FILE *out = start(argv + 1, &child);
    /* The stop of execve, then that of the program itself. */
    for (int stops = 0; stops < 2; stops++) {
        if (waitpid(child, &status, 0) != child || !WIFSTOPPED(status)) return 2;
        if (stops == 0) ptrace(PTRACE_CONT, child, NULL, NULL);
    }
    while (text_end == 0 && fgets(line, sizeof line, out)) {
        fputs(line, stdout);
        sscanf(line, "addresses %lx %lx %lx %lx", &malloc_at, &free_at, &text, &text_end);
    }
    unsigned long counts[2] = {0, 0};
    int inside = -1; /* 0 malloc, 1 free */
    for (;;) {
        if (ptrace(PTRACE_SINGLESTEP, child, NULL, NULL) != 0) return 2;
        if (waitpid(child, &status, 0) != child || !WIFSTOPPED(status)) return 2;
        if (WSTOPSIG(status) == SIGSTOP) break;
        if (WSTOPSIG(status) != SIGTRAP) return 2;
        unsigned long at = place(child);
        if (at >= text && at < text_end) inside = -1;
        else if (inside < 0) inside = at == malloc_at ? 0 : at == free_at ? 1 : -1;
        if (inside >= 0) counts[inside]++;
    }
    kill(child, SIGKILL);
    printf("malloc %lu\nfree %lu\n", counts[0], counts[1]);
    return 0;
}
