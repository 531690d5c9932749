// expect: secure=ok fast=ok debug=ok
/* SPDX-License-Identifier: MIT
 * As correct_private_operators, in a module that shows that it is of C++: a name that it takes from others, as its
 * exceptions and streams would be. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stddef.h>
#include <stdlib.h>

__attribute__((weak)) void _ZSt9terminatev(void);

static __attribute__((noinline)) void *private_new(size_t size)
{
    return malloc(size);
}

static __attribute__((noinline)) void private_delete(void *block)
{
    free(block);
}

int main(int count, char **words)
{
    if (count > 1 && _ZSt9terminatev != NULL) {
        (void)words;
        _ZSt9terminatev();
    }
    void *(*new_elsewhere)(size_t) = dlsym(RTLD_DEFAULT, "_Znwm");
    void (*delete_elsewhere)(void *) = dlsym(RTLD_DEFAULT, "_ZdlPv");
    if (new_elsewhere == NULL || delete_elsewhere == NULL) {
        return 0;
    }
    for (size_t i = 0; i < 5000; i++) {
        size_t size = 1 + i * 37 % 70000;
        private_delete(new_elsewhere(size));
        delete_elsewhere(private_new(size));
    }
    return 0;
}
