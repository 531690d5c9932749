// expect: fast=any secure=abort "write after free: byte 16 of " debug=abort "write after free: byte 16 of "
/* SPDX-License-Identifier: MIT
 * The beginning of a block of pages that was freed and waits: found when nothing is to wait any longer. A handler of
 * the program may allocate then, and have all memory given back. */
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../../../include/mallow.h"

__attribute__((weak)) mw_misuse_handler mw_set_misuse_handler(mw_misuse_handler handler);
__attribute__((weak)) int mw_malloc_trim(size_t pad);

enum { HANDLED = 3 };

static void allocate(const struct mw_misuse *misuse)
{
    free(malloc(40000));
    mw_malloc_trim(0);
    _exit(misuse->goes_on ? 1 : HANDLED);
}

static void write_freed(void)
{
    char *volatile block = malloc(40000);
    free(block);
    block[16] = 1;
    mw_malloc_trim(0);
}

int main(void)
{
    int status = 0;
    pid_t child = fork();
    if (child == 0) {
        mw_set_misuse_handler(allocate);
        write_freed();
        return 1;
    }
    if (waitpid(child, &status, 0) != child || !WIFEXITED(status) ||
        WEXITSTATUS(status) != HANDLED) {
        return 1;
    }
    write_freed();
    return 0;
}
