// expect: secure=abort "which was allocated by aligned new" fast=any debug=abort "which was allocated by aligned new"
/* SPDX-License-Identifier: MIT
 * operator delete without an alignment, of what operator new made with one. */
#include <stddef.h>
#include <stdlib.h>
#include <unistd.h>

__attribute__((weak)) void *_ZnwmSt11align_val_t(size_t size, size_t alignment);
__attribute__((weak)) void _ZdlPv(void *block);

int main(int count, char **words)
{
    if (getenv("MALLOW_CONF") == NULL) { /* secure does not check this unless it is told to */
        setenv("MALLOW_CONF", "check_mixes:true,guard_sample:0", 1);
        execv("/proc/self/exe", words);
    }
    _ZdlPv(_ZnwmSt11align_val_t(500, 64));
    return 0;
}
