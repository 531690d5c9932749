// expect: secure=abort " of 0x" fast=any debug=abort " of 0x"
/* SPDX-License-Identifier: MIT
 * With misuse:continue a program goes on after a release that does not fit, and the handler hears of
 * each once, while few of many are written; a double free ends it all the same. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* memfd_create */
#endif
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "../../../include/mallow.h"

__attribute__((weak)) void *_Znwm(size_t size);
__attribute__((weak)) void *_Znam(size_t size);
__attribute__((weak)) void *_ZnwmSt11align_val_t(size_t size, size_t alignment);
__attribute__((weak)) void _ZdlPv(void *block);
__attribute__((weak)) void _ZdlPvm(void *block, size_t size);
__attribute__((weak)) bool mw_heap_is_valid(void);
__attribute__((weak)) mw_misuse_handler mw_set_misuse_handler(mw_misuse_handler handler);

static int times;

static void count_one(const struct mw_misuse *misuse)
{
    times += misuse->goes_on && misuse->block == misuse->pointer && misuse->size != 0;
}

/* How often a line of a file begins as a sentence does. */
static int sentences_in(int file)
{
    static char text[1 << 20];
    ssize_t length = pread(file, text, sizeof text - 1, 0);
    int found = 0;
    for (char *at = length > 0 ? text : NULL; at != NULL; at = strchr(at + 1, '\n')) {
        found += strncmp(at + (*at == '\n'), "mallow: ", 8) == 0;
    }
    return found;
}

int main(int count, char **words)
{
    if (getenv("MALLOW_CONF") == NULL) {
        setenv("MALLOW_CONF", "check_mixes:true,misuse:continue,guard_sample:0", 1);
        execv("/proc/self/exe", words);
    }
    mw_set_misuse_handler(count_one);
    int errors = dup(2);
    int told = memfd_create("told", 0);
    dup2(told, 2);
    for (int i = 0; i < 100; i++) {
        free(_Znwm(40));
        free(realloc(_Znam(100000), 200000));
        _ZdlPv(malloc(5000));
        _ZdlPv(_ZnwmSt11align_val_t(500, 64));
        _ZdlPvm(_Znwm(300), 301);
    }
    dup2(errors, 2);
    /* 16, one that says so, and the 32nd, 64th, 128th and 256th */
    if (times != 500 || sentences_in(told) != 21 || !mw_heap_is_valid()) {
        return 1;
    }
    void *block = malloc(20);
    free(block);
    free(block);
    return 0;
}
