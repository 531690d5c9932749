// expect: secure=abort "which mallow did not allocate" fast=abort "which mallow did not allocate" debug=abort "which mallow did not allocate"
/* SPDX-License-Identifier: MIT
 * A block of the allocator behind this one, fetched past the preload. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>

int main(void)
{
    void *libc = dlopen("libc.so.6", RTLD_NOW);
    void *(*libc_malloc)(size_t) = (void *(*)(size_t))dlsym(libc, "malloc");
    free(libc_malloc(100));
    return 0;
}
