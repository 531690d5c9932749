// expect: secure=abort "operator delete of" fast=any debug=abort "operator delete of"
/* SPDX-License-Identifier: MIT
 * operator delete of what malloc made. */
#include <stddef.h>
#include <stdlib.h>
#include <unistd.h>

__attribute__((weak)) void _ZdlPv(void *block);

int main(int count, char **words)
{
    if (getenv("MALLOW_CONF") == NULL) { /* secure does not check this unless it is told to */
        setenv("MALLOW_CONF", "check_mixes:true,guard_sample:0", 1);
        execv("/proc/self/exe", words);
    }
    _ZdlPv(malloc(40));
    return 0;
}
