/* SPDX-License-Identifier: MIT
 *
 * Promise 4: a pointer of another allocator is recognised; with foreign:next it goes to the next
 * allocator, with foreign:ignore it is left alone. (The sentence and the abort are in fault/.) Its size is not known.
 */
#include "promise.h"

#include <dlfcn.h>
#include <malloc.h>

/* Before the first free and realloc of such a block: what these are given on to does not depend on it. */
static void ask_for_size(void *(*libc_malloc)(size_t))
{
    void *(*resize)(void *, size_t, int) = dlsym(RTLD_DEFAULT, "rallocx");
    size_t (*resize_in_place)(void *, size_t, size_t, int) = dlsym(RTLD_DEFAULT, "xallocx");
    char *block = libc_malloc(1000);
    CHECK_EQ(malloc_usable_size(block), 0);
    CHECK_EQ(resize_in_place(block, 1000, 0, 0), 0);
    const char *settings = getenv("MALLOW_CONF");
    char *moved = resize(block, 2000, 0);
    if (settings && strstr(settings, "next")) {
        CHECK(moved != NULL);
        memset(moved, 1, 2000);
        block = realloc(moved, 3000);
        CHECK(block != NULL);
        memset(block, 1, 3000);
        free(block);
    } else {
        CHECK(moved == NULL);
    }
}

int main(void)
{
    void *libc = dlopen("libc.so.6", RTLD_NOW);
    CHECK(libc != NULL);
    void *(*libc_malloc)(size_t) = (void *(*)(size_t))dlsym(libc, "malloc");
    CHECK(libc_malloc != NULL && libc_malloc != malloc);
    ask_for_size(libc_malloc);
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
    promise_at_most("memory that foreign blocks left behind", promise_growth(before, after) / KIB,
                    1 * KIB, "KiB");
    return 0;
}
