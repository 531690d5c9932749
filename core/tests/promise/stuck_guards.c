/* SPDX-License-Identifier: MIT
 *
 * A program behind a seccomp filter that knows of MADV_GUARD_INSTALL, but not of MADV_GUARD_REMOVE, from its start on or
 * once there are guards: it can write to all blocks that it gets, also where it has locked a page that a guard would
 * have covered, and what it frees is used again. Where the kernel knows of neither (before Linux 6.13), guards are of
 * another kind.
 */
#include <malloc.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "promise.h"
#include "refused.h"

enum { ROUNDS = 100, ADVICE_TO_INSTALL = 102, ADVICE_TO_REMOVE = 103, MOST_MIB = 512 };

/* A page in the middle is locked: the kernel marks those in front of it, and refuses then. */
static void free_locked(size_t size)
{
    char *block = malloc(size);
    CHECK(block != NULL);
    mlock((char *)((uintptr_t)(block + size / 2) & ~(uintptr_t)4095), 4096);
    free(block);
}

static void work(void)
{
    static const size_t sizes[] = {40000, 100000, 400000, 3 * MIB};
    char *blocks[8];
    for (size_t i = 0; i < ROUNDS * sizeof sizes / sizeof sizes[0]; i++) {
        size_t size = sizes[i % (sizeof sizes / sizeof sizes[0])];
        free_locked(size);
        for (size_t at = 0; at < sizeof blocks / sizeof blocks[0]; at++) {
            blocks[at] = malloc(size / 2);
            CHECK(blocks[at] != NULL);
            blocks[at] = realloc(memset(blocks[at], 1, size / 2), size);
            CHECK(blocks[at] != NULL);
            memset(blocks[at], 2, size);
        }
        for (size_t at = 0; at < sizeof blocks / sizeof blocks[0]; at++) {
            free(blocks[at]);
        }
    }
}

static void refuse(unsigned first)
{
    if (!refuse_advice(first, ADVICE_TO_REMOVE)) {
        printf("skipped: no seccomp filters here (%s)\n", strerror(errno));
        fflush(stdout);
        _exit(0);
    }
}

/* With guard_sample: a block of the fast build that lies between guards has the size that was asked for. In the others each
 * has, so that only the fast build tells. */
static void work_without_marks(void)
{
    enum { SIZE = 100, BLOCKS = 1000 };
    bool is_guarded = false;
    refuse(ADVICE_TO_INSTALL);
    for (int i = 0; i < BLOCKS; i++) {
        char *block = malloc(SIZE);
        is_guarded = is_guarded || malloc_usable_size(block) == SIZE;
        free(block);
    }
    CHECK(is_guarded);
    work();
}

/* The filter comes before or after guards. */
static void work_with_marks(bool has_guards)
{
    if (has_guards) {
        work();
    }
    refuse(ADVICE_TO_REMOVE);
    size_t before = promise_field("status", "VmSize:");
    work();
    size_t after = promise_field("status", "VmSize:");
    promise_at_most("more mapped", after < before ? 0 : (after - before) / MIB, MOST_MIB, "MiB");
}

enum filter { WITHOUT_MARKS, BEFORE_GUARDS, BEHIND_GUARDS };

static int status_of_child(enum filter filter)
{
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        if (filter == WITHOUT_MARKS) {
            work_without_marks();
        } else {
            work_with_marks(filter == BEHIND_GUARDS);
        }
        _exit(0);
    }
    int status = -1;
    CHECK_EQ(waitpid(child, &status, 0), child);
    return status;
}

/* The kernel refuses the advice for no pages only where it does not know it. */
static void tell_old_kernel(void)
{
    if (madvise(NULL, 0, ADVICE_TO_INSTALL) != 0) {
        printf("skipped: marks, which this kernel does not know (%s)\n", strerror(errno));
        fflush(stdout);
    }
}

int main(void)
{
    tell_old_kernel();
    CHECK_EQ(status_of_child(WITHOUT_MARKS), 0);
    CHECK_EQ(status_of_child(BEFORE_GUARDS), 0);
    CHECK_EQ(status_of_child(BEHIND_GUARDS), 0);
    return 0;
}
