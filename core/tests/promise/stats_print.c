/* SPDX-License-Identifier: MIT
 *
 * With stats_print the summary goes to standard error, but not into a file of the program's that has
 * taken its descriptor. Run without arguments it runs itself twice.
 */
#include <sys/wait.h>

#include "promise.h"

/* Runs itself with its standard error in a pipe; returns what came. */
static size_t run_self(char *self, const char *argument, char *text, size_t size)
{
    int ends[2];
    CHECK_EQ(pipe(ends), 0);
    pid_t child = fork();
    if (child == 0) {
        dup2(ends[1], 2);
        close(ends[0]);
        close(ends[1]);
        execl(self, self, argument, (char *)NULL);
        _exit(127);
    }
    close(ends[1]);
    size_t used = 0;
    for (ssize_t got; (got = read(ends[0], text + used, size - 1 - used)) > 0;) {
        used += (size_t)got;
    }
    text[used] = 0;
    close(ends[0]);
    int status = -1;
    CHECK_EQ(waitpid(child, &status, 0), child);
    CHECK_EQ(status, 0);
    return used;
}

int main(int count, char **arguments)
{
    static char text[10000];
    void *volatile block = malloc(100);
    free(block);
    if (count == 2 && arguments[1][0] != '/') {
        return 0;
    }
    if (count == 2) {
        close(2);
        CHECK_EQ(open(arguments[1], O_WRONLY), 2);
        return write(2, "data\n", 5) != 5;
    }
    char path[] = "/tmp/mallow-stats-XXXXXX";
    CHECK(mkstemp(path) >= 0);
    run_self(arguments[0], "plain", text, sizeof text);
    CHECK_MSG(strstr(text, "allocated in slots") != NULL, "'%s'", text);
    CHECK_EQ(run_self(arguments[0], path, text, sizeof text), 0);
    promise_read(path, text, sizeof text);
    unlink(path);
    CHECK_MSG(strcmp(text, "data\n") == 0, "'%s'", text);
    return 0;
}
