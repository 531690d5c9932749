/* SPDX-License-Identifier: MIT
 *
 * Promise 2 and the start-up target: what a trivial program with the library costs over the same
 * program without it. Run without arguments it runs itself twice, without and with LD_PRELOAD.
 */
#define PROMISE_RUNS_WITHOUT
#include "promise.h"

#include <sys/wait.h>

struct cost {
    size_t space, dirty;
};

/* Private dirty memory includes the program's and the loader's own pages, hence the difference. */
static struct cost run_self(char *self, const char *preload)
{
    int pipe_ends[2];
    CHECK_EQ(pipe(pipe_ends), 0);
    pid_t child = fork();
    if (child == 0) {
        dup2(pipe_ends[1], 1);
        if (preload) {
            setenv("LD_PRELOAD", preload, 1);
        } else {
            unsetenv("LD_PRELOAD");
        }
        execl(self, self, "measure", (char *)NULL);
        _exit(127);
    }
    close(pipe_ends[1]); /* so that the end of the child ends the wait */
    struct cost cost;
    CHECK_EQ(read(pipe_ends[0], &cost, sizeof cost), sizeof cost);
    int status = -1;
    waitpid(child, &status, 0);
    CHECK_EQ(status, 0);
    close(pipe_ends[0]);
    return cost;
}

int main(int argc, char **argv)
{
    if (argc > 1) {
        struct cost start = {.dirty = promise_field("smaps_rollup", "Private_Dirty:")};
        char *volatile block = malloc(100);
        memset(block, 1, 100);
        struct cost cost = {promise_field("status", "VmSize:"),
                            promise_field("smaps_rollup", "Private_Dirty:")};
        CHECK(start.dirty <= cost.dirty);
        return write(1, &cost, sizeof cost) != sizeof cost;
    }
    const char *library = getenv("LD_PRELOAD");
    CHECK(library != NULL);
    char saved[4096];
    snprintf(saved, sizeof saved, "%s", library);
    struct cost with = run_self(argv[0], saved), without = run_self(argv[0], NULL);
    size_t space = with.space > without.space ? with.space - without.space : 0;
    size_t dirty = with.dirty > without.dirty ? with.dirty - without.dirty : 0;
    printf(
        "a trivial program: %zu KiB of address space and %zu KiB private dirty with the library, %zu and %zu without\n",
        with.space / KIB, with.dirty / KIB, without.space / KIB, without.dirty / KIB);
    promise_at_most("address space of a fresh process, over glibc's", space / KIB, 16 * KIB, "KiB");
    promise_at_most("private dirty memory after one malloc", dirty / KIB,
                    (size_t)atoi(PROMISE_DIRTY_KIB), "KiB");
    return 0;
}
