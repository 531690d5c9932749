/* SPDX-License-Identifier: MIT
 *
 * Promise 2: `ulimit -v` works. Under a limit, a program gets nearly all of it as blocks, then NULL
 * with ENOMEM, and after it frees some it can allocate again. In the debug build, blocks of 100 bytes
 * take as much again for red zones and for what is noted of them, and what waits in the quarantine is
 * there when it is needed.
 */
#include "promise.h"

#include <errno.h>
#include <sys/resource.h>
#include <sys/wait.h>

enum { LIMIT = 200 * MIB, SIZES = 5 };

static const size_t sizes[SIZES] = {100, 3000, 50000, 700000, 9 * MIB};

/* Fills the space with blocks of one size, in a list through the blocks themselves. */
static size_t fill(size_t size, void ***list)
{
    size_t bytes = 0;
    for (;;) {
        errno = 0;
        void **block = malloc(size);
        if (block == NULL) {
            CHECK_EQ(errno, ENOMEM);
            return bytes;
        }
        *block = *list;
        *list = block;
        bytes += size;
    }
}

static void release(void **list)
{
    while (list) {
        void **next = *list;
        free(list);
        list = next;
    }
}

/* What was filled by blocks of one size is there for those of another, also for what is noted of them: in
 * whichever order the sizes come. */
static void fill_in_turns(int first, int step)
{
    bool is_debug = promise_is_mode("debug");
    for (int i = first; i >= 0 && i < SIZES; i += step) {
        size_t least = is_debug && sizes[i] <= 100 ? LIMIT / 8 * 3 : LIMIT / 2;
        void **list = NULL;
        size_t bytes = fill(sizes[i], &list);
        printf("blocks of %zu: %zu of %d MiB\n", sizes[i], bytes / MIB, LIMIT / MIB);
        CHECK_MSG(bytes > least, "%zu MiB in blocks of %zu", bytes / MIB, sizes[i]);
        CHECK(malloc(LIMIT) == NULL);
        release(list);
        void *large = malloc(LIMIT / 4);
        CHECK_MSG(large != NULL, "after all blocks of %zu were freed", sizes[i]);
        free(large);
    }
}

int main(void)
{
    size_t now = promise_field("status", "VmSize:");
    struct rlimit limit = {now + LIMIT, now + LIMIT};
    CHECK_EQ(setrlimit(RLIMIT_AS, &limit), 0);
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        fill_in_turns(SIZES - 1, -1);
        fflush(stdout);
        _exit(0);
    }
    int status;
    CHECK_EQ(waitpid(child, &status, 0), child);
    CHECK_EQ(status, 0);
    fill_in_turns(0, 1);
    return 0;
}
