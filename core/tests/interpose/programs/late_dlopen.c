/* SPDX-License-Identifier: MIT
 *
 * late_dlopen LIBRARY: threads run and the libc's malloc is in use before the library is opened, by
 * RTLD_NOW, locally and globally. Blocks of both allocators live side by side.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define THREADS 8

typedef void *malloc_function(size_t);
typedef void free_function(void *);

static malloc_function *library_malloc;
static free_function *library_free;
static pthread_barrier_t opened;

static void *work(void *unused)
{
    char *early = malloc(1000);
    pthread_barrier_wait(&opened);
    for (int i = 0; i < 20000; i++) {
        size_t size = (size_t)(i * 7919 % 5000) + 1;
        char *ours = library_malloc(size);
        char *libcs = malloc(size);
        if (ours == NULL || libcs == NULL) {
            abort();
        }
        memset(ours, 1, size);
        memset(libcs, 2, size);
        library_free(ours);
        free(libcs);
    }
    free(early);
    return unused;
}

int main(int argc, char **argv)
{
    pthread_t threads[THREADS];
    if (argc < 2) {
        return 2;
    }
    pthread_barrier_init(&opened, NULL, THREADS + 1);
    for (int i = 0; i < THREADS; i++) {
        pthread_create(&threads[i], NULL, work, NULL);
    }

    void *library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
    if (library == NULL || dlopen(argv[1], RTLD_NOW | RTLD_GLOBAL) != library) {
        fprintf(stderr, "%s\n", dlerror());
        return 1;
    }
    const char *(*version)(void) = (const char *(*)(void))dlsym(library, "mw_version");
    library_malloc = (malloc_function *)dlsym(library, "mw_malloc");
    library_free = (free_function *)dlsym(library, "mw_free");
    if (version == NULL || library_malloc == NULL || library_free == NULL) {
        fprintf(stderr, "%s\n", dlerror());
        return 1;
    }
    pthread_barrier_wait(&opened);
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
    }
    printf("mallow %s\n", version());
    return 0;
}
