/* SPDX-License-Identifier: MIT
 *
 * A program that locks its memory, or has a limit on data (`ulimit -d`), pays for address space as
 * if it were used. With 300 KB of small blocks that stays within a few MiB. The debug build has two
 * tables more, by which it finds call stacks again, and notes of each block. All have 96 KiB in which figures are kept
 * where there is no memory.
 */
#include "promise.h"

#include <sys/mman.h>
#include <sys/wait.h>

enum { BLOCKS = 300, SIZE = 1000, DATA_KIB = 7296, LOCKED_KIB = 9900, DEBUG_KIB = 2048 };

static void allocate(void)
{
    for (int i = 0; i < BLOCKS; i++) {
        char *volatile block = malloc(SIZE);
        CHECK(block != NULL);
        block[0] = 1;
    }
}

int main(void)
{
    size_t more = promise_is_mode("debug") ? DEBUG_KIB : 0;
    pid_t child = fork();
    if (child == 0) {
        if (mlockall(MCL_CURRENT | MCL_FUTURE) != 0) {
            printf("memory cannot be locked here\n");
            return 0;
        }
        allocate();
        promise_at_most("locked", promise_field("status", "VmRSS:") / KIB, LOCKED_KIB + more,
                        "KiB");
        return 0;
    }
    int status = -1;
    CHECK_EQ(waitpid(child, &status, 0), child);
    CHECK_EQ(status, 0);
    allocate();
    promise_at_most("data", promise_field("status", "VmData:") / KIB, DATA_KIB + more, "KiB");
    return 0;
}
