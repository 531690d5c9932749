/* A program with a malloc of its own, which ends it with 99 if it is called before main. Eight threads
 * then ask for aligned memory, which that malloc does not have, at the same moment. Ends with 7. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <unistd.h>

enum { THREADS = 8 };

static int is_ready;
static char heap[16 << 20];
static _Atomic size_t top;
static pthread_barrier_t barrier;

void *malloc(size_t size)
{
    if (!is_ready) {
        _exit(99);
    }
    return heap + atomic_fetch_add(&top, (size + 15) & ~(size_t)15);
}

void *calloc(size_t count, size_t size)
{
    return malloc(count * size);
}

void *realloc(void *old, size_t size)
{
    (void)old;
    return malloc(size);
}

void free(void *block)
{
    (void)block;
}

static void *work(void *unused)
{
    void *block;
    pthread_barrier_wait(&barrier);
    if (posix_memalign(&block, 64, 100) != 0 || aligned_alloc(64, 128) == NULL) {
        _exit(97);
    }
    return unused;
}

int main(void)
{
    pthread_t threads[THREADS];
    is_ready = 1;
    pthread_barrier_init(&barrier, NULL, THREADS);
    for (int i = 0; i < THREADS; i++) {
        pthread_create(&threads[i], NULL, work, NULL);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
    }
    void *library = dlopen("libm.so.6", RTLD_NOW);
    return library == NULL || dlsym(NULL, "none") != NULL || dlclose(library) != 0 ? 98 : 7;
}
