/* SPDX-License-Identifier: MIT
 *
 * Promise 3, tiny TLS: the library can be loaded at run time by a program whose libraries have used
 * up the loader's spare TLS. The program loads modules with initial-exec TLS until the loader
 * refuses one, as a program with many libraries would, leaves 64 bytes, and loads Mallow then.
 *
 *   tls LIBRARY MODULE_DIR
 */
#define PROMISE_RUNS_WITHOUT
#include "promise.h"

#include <dlfcn.h>

int main(int argc, char **argv)
{
    CHECK_EQ(argc, 3);
    int loaded = 0;
    for (int i = 0; i < PROMISE_TLS_MODULES; i++) {
        char path[4096];
        snprintf(path, sizeof path, "%s/libtls_module_%d.so", argv[2], i);
        loaded += dlopen(path, RTLD_NOW) != NULL;
    }
    printf("%d of %d modules of 256 bytes of initial-exec TLS could be loaded\n", loaded,
           PROMISE_TLS_MODULES);
    CHECK_MSG(loaded > 0 && loaded < PROMISE_TLS_MODULES, "the spare TLS is not used up");
    void *library = dlopen(argv[1], RTLD_NOW);
    CHECK_MSG(library != NULL, "%s", dlerror());
    void *(*allocate)(size_t) = (void *(*)(size_t))dlsym(library, "mw_malloc");
    void (*release)(void *) = (void (*)(void *))dlsym(library, "mw_free");
    CHECK(allocate != NULL && release != NULL);
    for (size_t size = 1; size < 10 * MIB; size = size * 2 + 1) {
        char *block = allocate(size);
        CHECK(block != NULL);
        memset(block, 1, size);
        release(block);
    }
    printf("loaded at run time, and it allocates\n");
    return 0;
}
