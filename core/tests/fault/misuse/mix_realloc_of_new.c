// expect: secure=abort "realloc of" fast=any debug=abort "realloc of"
/* SPDX-License-Identifier: MIT
 * realloc of what operator new[] made. */
#include <stddef.h>
#include <stdlib.h>
#include <unistd.h>

__attribute__((weak)) void *_Znam(size_t size);

int main(int count, char **words)
{
    if (getenv("MALLOW_CONF") == NULL) { /* secure does not check this unless it is told to */
        setenv("MALLOW_CONF", "check_mixes:true,guard_sample:0", 1);
        execv("/proc/self/exe", words);
    }
    free(realloc(_Znam(100000), 200000));
    return 0;
}
