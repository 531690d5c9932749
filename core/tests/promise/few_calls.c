/* SPDX-License-Identifier: MIT
 *
 * A program allows itself, by a seccomp filter, no system calls but those of glibc's malloc, read, write and the end.
 * Blocks that lie between guards, of which call stacks are kept, need no others. A double free is told before the
 * filter ends the program for what comes then.
 */
#include <sys/wait.h>

#include "promise.h"
#include "refused.h"

static const int allowed[] = {
    SYS_read,   SYS_write,    SYS_exit,    SYS_exit_group, SYS_brk,          SYS_mmap,
    SYS_munmap, SYS_mprotect, SYS_madvise, SYS_futex,      SYS_rt_sigreturn,
};

enum { BLOCKS = 1000, ALLOCATIONS = 10000, LARGEST = 30000 };

static void lock_in(void)
{
    setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
    if (!allow_calls(allowed, sizeof allowed / sizeof allowed[0])) {
        FAIL("no seccomp filters here (%s)", strerror(errno));
    }
}

static void allocate(void)
{
    static char *blocks[BLOCKS];
    for (size_t i = 0; i < ALLOCATIONS; i++) {
        size_t size = 1 + i * 977 % LARGEST;
        char **place = &blocks[i % BLOCKS];
        free(*place);
        *place = malloc(size);
        CHECK(*place != NULL);
        memset(*place, 1, size);
    }
    for (size_t i = 0; i < BLOCKS; i++) {
        free(blocks[i]);
    }
}

static void free_twice(void)
{
    void *volatile block = malloc(48);
    void *volatile other = malloc(48);
    free(block);
    free(other);
    free(block);
}

/* Returns how the child ends; *text gets what it writes to standard error. */
static int status_of_child(void (*run)(void), char *text, size_t size)
{
    int ends[2], status = -1;
    CHECK_EQ(pipe(ends), 0);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        CHECK_EQ(dup2(ends[1], 2), 2);
        lock_in();
        run();
        _exit(0);
    }
    close(ends[1]);
    size_t used = 0;
    for (ssize_t got; (got = read(ends[0], text + used, size - 1 - used)) > 0;) {
        used += (size_t)got;
    }
    text[used] = 0;
    close(ends[0]);
    CHECK_EQ(waitpid(child, &status, 0), child);
    return status;
}

static void do_nothing(void)
{
}

int main(void)
{
    static char text[4096];
    int status = status_of_child(do_nothing, text, sizeof text);
    if (WIFEXITED(status) && WEXITSTATUS(status) != 0) {
        printf("skipped: %s", text);
        return 0;
    }
    status = status_of_child(allocate, text, sizeof text);
    CHECK_MSG(status == 0, "status %#x: %s", (unsigned)status, text);
    if (promise_is_mode("secure")) {
        status = status_of_child(free_twice, text, sizeof text);
        CHECK_MSG(WIFSIGNALED(status) && strstr(text, "mallow: double free of ") == text,
                  "status %#x: %s", (unsigned)status, text);
    }
    printf("allocated without other system calls\n");
    return 0;
}
