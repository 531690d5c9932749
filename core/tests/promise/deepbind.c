/* SPDX-License-Identifier: MIT
 *
 * A module that is opened with RTLD_DEEPBIND asks the libc for malloc before it asks the preloaded
 * library, as PHP's extensions do. It has the program's allocator all the same, and is found where the
 * libc's own dlopen finds it for this program.
 *
 *   deepbind NAME    of the module, in the folder that this program's runpath names
 */
#include <sys/wait.h>
#include <unistd.h>

#include "promise.h"

enum { BLOCKS = 1000, THREADS = 4 };

static struct {
    void *(*early)(void);
    void *(*malloc)(size_t size);
    void *(*realloc)(void *block, size_t size);
    void (*free)(void *block);
    void *(*libc_malloc)(size_t size);
} module;

static const char *name;

static void *open_module(void *unused)
{
    void *opened = dlopen(name, RTLD_NOW | RTLD_DEEPBIND);
    CHECK_MSG(opened != NULL, "%s", dlerror());
    return unused == NULL ? opened : NULL;
}

static void *function(void *opened, const char *symbol)
{
    void *found = dlsym(opened, symbol);
    CHECK_MSG(found != NULL, "no %s", symbol);
    return found;
}

/* Blocks of the program that the module frees or moves, and the reverse. */
static void exchange(void)
{
    size_t before = promise_stat("allocations");
    for (size_t i = 0; i < BLOCKS; i++) {
        module.free(malloc(i));
        free(module.malloc(i));
        free(module.realloc(malloc(i), 2 * i + 1));
        module.free(realloc(module.malloc(i), 2 * i + 1));
        free(module.libc_malloc(i));
    }
    size_t grown = promise_stat("allocations") - before;
    CHECK_MSG(grown >= 5 * BLOCKS, "of %d blocks Mallow gave %zu", 5 * BLOCKS, grown);
}

int main(int count, char **arguments)
{
    CHECK_EQ(count, 2);
    name = arguments[1];
    pthread_t threads[THREADS];
    for (size_t i = 0; i < THREADS; i++) { /* at the same time, the first time */
        CHECK_EQ(pthread_create(&threads[i], NULL, open_module, threads), 0);
    }
    for (size_t i = 0; i < THREADS; i++) {
        CHECK_EQ(pthread_join(threads[i], NULL), 0);
    }
    void *opened = open_module(NULL);
    module.early = (void *(*)(void))function(opened, "module_early");
    module.malloc = (void *(*)(size_t))function(opened, "module_malloc");
    module.realloc = (void *(*)(void *, size_t))function(opened, "module_realloc");
    module.free = (void (*)(void *))function(opened, "module_free");
    module.libc_malloc = (void *(*)(size_t))function(opened, "module_libc_malloc");
    free(module.early());
    exchange();
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        open_module(NULL);
        exchange();
        _exit(0);
    }
    int status;
    CHECK_EQ(waitpid(child, &status, 0), child);
    CHECK_EQ(status, 0);
    return 0;
}
