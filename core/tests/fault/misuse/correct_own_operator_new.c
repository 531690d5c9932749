// expect: secure=ok fast=ok debug=ok
/* SPDX-License-Identifier: MIT
 * A program with an operator new of its own, over malloc, and no operator delete of its own. */
#include <stddef.h>
#include <stdlib.h>
#include <unistd.h>

void *_Znwm(size_t size)
{
    return malloc(size);
}
__attribute__((weak)) void _ZdlPv(void *block);

int main(int count, char **words)
{
    if (getenv("MALLOW_CONF") == NULL) { /* secure does not check this unless it is told to */
        setenv("MALLOW_CONF", "check_mixes:true", 1);
        execv("/proc/self/exe", words);
    }
    _ZdlPv(_Znwm(40));
    return 0;
}
