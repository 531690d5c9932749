// expect: secure=ok fast=ok debug=ok
/* SPDX-License-Identifier: MIT
 * A block of which a page is locked lies in three mappings. Where the process may have only one or two more, access to
 * the first is taken away before the kernel refuses the others. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SIZE = 40000, LOCKED = 20480, PAGE = 4096, MOST = 200000, BACK_MOST = 6 };

/* Makes every second page a mapping of its own until there may be no more, and then so many fewer. */
static int fill_maps(char *pages, size_t count, int back)
{
    size_t at = 1;
    while (at < count && mprotect(pages + at * PAGE, PAGE, PROT_READ) == 0) {
        at += 2;
    }
    if (at >= count) {
        return 0;
    }
    while (mmap(NULL, PAGE, PROT_READ, MAP_SHARED | MAP_ANONYMOUS, -1, 0) != MAP_FAILED) {
    }
    for (int i = 0; i < back / 2; i++) {
        at -= 2;
        mprotect(pages + at * PAGE, PAGE, PROT_NONE);
    }
    return 1;
}

static int use(int back)
{
    static char *blocks[2];
    for (int i = 0; i < 2; i++) {
        blocks[i] = malloc(SIZE);
        memset(blocks[i], 'a', SIZE);
    }
    mlock(blocks[0] + LOCKED, PAGE);
    char *pages = mmap(NULL, (size_t)MOST * PAGE, PROT_NONE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (pages == MAP_FAILED || !fill_maps(pages, MOST, back)) {
        return 0; /* there may be more than are tried here */
    }
    free(blocks[0]);
    for (int i = 0; i < 100; i++) {
        char *volatile block = malloc(SIZE);
        if (block != NULL) {
            memset(block, 'b', SIZE);
        }
        free(block);
    }
    return 0;
}

int main(void)
{
    for (int back = 0; back <= BACK_MOST; back += 2) {
        pid_t child = fork();
        if (child == 0) {
            _exit(use(back));
        }
        int status;
        if (waitpid(child, &status, 0) != child || status != 0) {
            printf("with %d mappings left: status %d\n", back, status);
            return 1;
        }
    }
    return 0;
}
