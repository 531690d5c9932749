// expect: secure=abort "which was allocated by new[]" fast=any debug=abort "which was allocated by new[]"
/* SPDX-License-Identifier: MIT
 * operator delete of what operator new[] made. */
#include <stddef.h>
#include <stdlib.h>
#include <unistd.h>

__attribute__((weak)) void *_Znam(size_t size);
__attribute__((weak)) void _ZdlPvm(void *block, size_t size);

int main(int count, char **words)
{
    if (getenv("MALLOW_CONF") == NULL) { /* secure does not check this unless it is told to */
        setenv("MALLOW_CONF", "check_mixes:true,guard_sample:0", 1);
        execv("/proc/self/exe", words);
    }
    _ZdlPvm(_Znam(61), 61);
    return 0;
}
