/* Preloaded behind the recorder: counts the calls of recorded processes in the file COUNTER. */
#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>

extern void *__libc_malloc(size_t);
extern void *__libc_calloc(size_t, size_t);
extern void *__libc_realloc(void *, size_t);
extern void __libc_free(void *);
extern char **environ;

static void count(void)
{
    static _Atomic long nowhere;
    static _Atomic long *counter;
    if (counter == NULL && environ != NULL) {
        const char *path = getenv("COUNTER");
        int fd = path != NULL && getenv("MALLOW_RECORD") != NULL ? open(path, O_RDWR) : -1;
        void *map = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        counter = fd >= 0 && map != MAP_FAILED ? map : &nowhere;
    }
    if (counter != NULL) {
        atomic_fetch_add(counter, 1);
    }
}

void *malloc(size_t size)
{
    count();
    return __libc_malloc(size);
}

void *calloc(size_t number, size_t size)
{
    count();
    return __libc_calloc(number, size);
}

void *realloc(void *block, size_t size)
{
    count();
    return __libc_realloc(block, size);
}

void free(void *block)
{
    count();
    __libc_free(block);
}
