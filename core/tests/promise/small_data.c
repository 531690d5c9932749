/* SPDX-License-Identifier: MIT
 *
 * A limit on data (ulimit -d) of a few MiB, set before the first malloc: from the least that gives any blocks on, more
 * gives no fewer. A region that could be had may leave no room for what describes it.
 */
#include "promise.h"

#include <sys/resource.h>
#include <sys/wait.h>

enum { BLOCK = 64, STEP = 512 * KIB, MOST = 12 * MIB, LEAST_OF_MOST = 1 * MIB };

/* Blocks that a process gets under a limit, at most 20,000. */
static int blocks_under(size_t limit)
{
    int ends[2];
    CHECK_EQ(pipe(ends), 0);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        struct rlimit data = {limit, limit};
        int count = 0;
        CHECK_EQ(setrlimit(RLIMIT_DATA, &data), 0);
        while (count < 20000 && malloc(BLOCK) != NULL) {
            count++;
        }
        _exit(write(ends[1], &count, sizeof count) == sizeof count ? 0 : 1);
    }
    int status, count;
    CHECK_EQ(waitpid(child, &status, 0), child);
    CHECK_EQ(status, 0);
    CHECK_EQ(read(ends[0], &count, sizeof count), (ssize_t)sizeof count);
    close(ends[0]);
    close(ends[1]);
    return count;
}

int main(void)
{
    bool were_any = false;
    int count = 0;
    for (size_t limit = 4 * MIB; limit <= MOST; limit += STEP) {
        count = blocks_under(limit);
        CHECK_MSG(count > 0 || !were_any, "none under a limit of %zu KiB", limit / KIB);
        were_any = were_any || count > 100;
    }
    printf("%d KiB in blocks under a limit of %d MiB\n", count * BLOCK / KIB, MOST / MIB);
    CHECK_GE(count * BLOCK, LEAST_OF_MOST);
    return 0;
}
