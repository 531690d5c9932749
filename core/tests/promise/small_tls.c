/* SPDX-License-Identifier: MIT
 *
 * glibc's loader takes the thread-local data of a library from malloc when a thread first uses it, and
 * counts on 16-byte alignment: blocks of a few bytes have it too.
 *
 *   small_tls MODULE
 */
#include <dlfcn.h>

#include "promise.h"

static char *(*data)(void);

static void *use_data(void *number)
{
    /* So that the block of the loader comes behind some others. */
    for (size_t i = 0; i < (size_t)number; i++) {
        char *volatile block = malloc(8);
        CHECK_EQ((uintptr_t)block % 16, 0);
    }
    CHECK_MSG((uintptr_t)data() % 16 == 0, "thread-local data at %p", (void *)data());
    return NULL;
}

int main(int count, char **arguments)
{
    CHECK_EQ(count, 2);
    void *module = dlopen(arguments[1], RTLD_NOW);
    CHECK_MSG(module != NULL, "%s", dlerror());
    data = (char *(*)(void))dlsym(module, "small_tls_data");
    CHECK(data != NULL);
    for (size_t i = 0; i < 8; i++) {
        pthread_t thread;
        CHECK_EQ(pthread_create(&thread, NULL, use_data, (void *)i), 0);
        CHECK_EQ(pthread_join(thread, NULL), 0);
    }
    return 0;
}
