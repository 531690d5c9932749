// expect: secure=ok fast=ok debug=abort "which was allocated by new"
/* SPDX-License-Identifier: MIT
 * A module with private operators, as -static-libstdc++ and hidden symbols make it: what another module's operator
 * new made ends in its own operator delete, and what its own new made in the other's. All call malloc
 * and free in the end, so all goes well with any allocator that does not look; more of it than anybody
 * looks at one by one. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stddef.h>
#include <stdlib.h>

static __attribute__((noinline)) void *private_new(size_t size)
{
    return malloc(size);
}

static __attribute__((noinline)) void private_delete(void *block)
{
    free(block);
}

int main(void)
{
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
