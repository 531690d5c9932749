/* SPDX-License-Identifier: MIT
 *
 * dlclose of the library, or of a module that the allocator is part of, then fork and the end of a
 * thread that has used it: nothing may point into code that is gone.
 *
 *   unload LIBRARY
 */
#include <dlfcn.h>
#include <sys/wait.h>

#define PROMISE_RUNS_WITHOUT
#include "promise.h"

static void *(*allocate)(size_t);
static void *library;

static void *use_and_close(void *unused)
{
    CHECK(allocate(100) != NULL);
    CHECK_EQ(dlclose(library), 0);
    return unused;
}

int main(int count, char **arguments)
{
    CHECK_EQ(count, 2);
    library = dlopen(arguments[1], RTLD_NOW | RTLD_LOCAL);
    CHECK_MSG(library != NULL, "%s", dlerror());
    allocate = (void *(*)(size_t))dlsym(library, "mw_malloc");
    pthread_t thread;
    CHECK_EQ(pthread_create(&thread, NULL, use_and_close, NULL), 0);
    CHECK_EQ(pthread_join(thread, NULL), 0);
    pid_t child = fork();
    if (child == 0) {
        _exit(0);
    }
    int status;
    CHECK_EQ(waitpid(child, &status, 0), child);
    CHECK_EQ(status, 0);
    return 0;
}
