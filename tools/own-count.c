// SPDX-License-Identifier: MIT
//
// Preloaded into a program by tools/explain-table: on a signal, the program writes what its own
// allocator counts as in use into a file. No thread and no allocation before that, so that the heap
// is what it would be without this.

#define _GNU_SOURCE
#include <dlfcn.h>
#include <malloc.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

typedef int mallctl_fn(const char *, void *, size_t *, void *, size_t);
typedef int property_fn(const char *, size_t *);
typedef size_t held_fn(void);

// Whether a function lies in the same library as malloc: others may be loaded beside it.
static void *of_malloc(const char *name)
{
    Dl_info one, other;
    void *function = dlsym(RTLD_DEFAULT, name);
    void *serving = dlsym(RTLD_DEFAULT, "malloc");
    if (!function || !dladdr(function, &one) || !dladdr(serving, &other)) return NULL;
    return one.dli_fbase == other.dli_fbase ? function : NULL;
}

// The program is at rest, so no thread is inside malloc; a handler may not call these otherwise.
static void count(int number)
{
    (void)number;
    char name[4096];
    snprintf(name, sizeof name, "%s/count.%d", getenv("OWN_COUNT"), (int)getpid());
    mallctl_fn *mallctl = (mallctl_fn *)of_malloc("mallctl");
    property_fn *property = (property_fn *)of_malloc("MallocExtension_GetNumericProperty");
    held_fn *held = (held_fn *)dlsym(RTLD_DEFAULT, "explain_load_held");
    size_t bytes = 0, size = sizeof bytes;
    uint64_t epoch = 1;
    if (mallctl) {
        mallctl("epoch", NULL, NULL, &epoch, sizeof epoch); // its figures are of the last epoch
        mallctl("stats.allocated", &bytes, &size, NULL, 0);
    } else if (property) {
        property("generic.current_allocated_bytes", &bytes);
    } else if (held) {
        bytes = held();
    }
    FILE *file = fopen(name, "w");
    if (!file) return;
    if (mallctl || property || held)
        fprintf(file, "allocated %zu\n", bytes);
    else
        malloc_info(0, file);
    fclose(file);
    char done[4200];
    snprintf(done, sizeof done, "%s.done", name);
    rename(name, done);
}

__attribute__((constructor)) static void start(void)
{
    struct sigaction action = {.sa_handler = count, .sa_flags = SA_RESTART};
    if (getenv("OWN_COUNT")) sigaction(SIGRTMAX - 3, &action, NULL);
}
