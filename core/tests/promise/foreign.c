/* SPDX-License-Identifier: MIT
 *
 * Promise 4: a pointer of another allocator is recognised; with foreign:next it goes to the next
 * allocator, with foreign:ignore it is left alone. (The sentence and the abort are in fault/.)
 */
#include "promise.h"

#include <dlfcn.h>

int main(void)
{
    void *libc = dlopen("libc.so.6", RTLD_NOW);
    CHECK(libc != NULL);
    void *(*libc_malloc)(size_t) = (void *(*)(size_t))dlsym(libc, "malloc");
    CHECK(libc_malloc != NULL && libc_malloc != malloc);
    size_t before = promise_field("status", "VmRSS:");
    const char *settings = getenv("MALLOW_CONF");
    int rounds = settings && strstr(settings, "next") ? 4000 : 10;
    for (int i = 0; i < rounds; i++) {
        char *block = libc_malloc(1000);
        memset(block, 1, 1000);
        free(block);
    }
    size_t after = promise_field("status", "VmRSS:");
    /* 4 MB if the next allocator had not got its blocks back. */
    promise_at_most("memory that foreign blocks left behind", (after - before) / KIB, 1 * KIB,
                    "KiB");
    return 0;
}
