// expect: secure=abort " of 0x" fast=any debug=abort " of 0x"
/* SPDX-License-Identifier: MIT
 * With misuse:continue a program goes on after a release that does not fit, and the handler hears of
 * each once; a double free ends it all the same. */
#include <stddef.h>
#include <stdlib.h>
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

int main(int count, char **words)
{
    if (getenv("MALLOW_CONF") == NULL) {
        setenv("MALLOW_CONF", "check_mixes:true,misuse:continue,guard_sample:0", 1);
        execv("/proc/self/exe", words);
    }
    mw_set_misuse_handler(count_one);
    for (int i = 0; i < 100; i++) {
        free(_Znwm(40));
        free(realloc(_Znam(100000), 200000));
        _ZdlPv(malloc(5000));
        _ZdlPv(_ZnwmSt11align_val_t(500, 64));
        _ZdlPvm(_Znwm(300), 301);
    }
    if (times != 500 || !mw_heap_is_valid()) {
        return 1;
    }
    void *block = malloc(20);
    free(block);
    free(block);
    return 0;
}
