/* SPDX-License-Identifier: MIT */
/*
 * An allocator, namely glibc's, that says at the first block of 1000 bytes what it finds around it: one
 * line in the file SURROUNDINGS, `NAME clock SECONDS small-pages 0|1 shared 0|1`, the last one for
 * whether libshared.so is loaded.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *block, size_t size);
void *__libc_memalign(size_t alignment, size_t size);
void __libc_free(void *block);

static void look_around(void)
{
    static int was_here;
    if (was_here++ > 0) {
        return;
    }
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    int small_pages = prctl(PR_GET_THP_DISABLE, 0, 0, 0, 0);
    int shared = dlopen("libshared.so", RTLD_LAZY | RTLD_NOLOAD) != NULL;
    int file = open(getenv("SURROUNDINGS"), O_WRONLY | O_CREAT | O_APPEND, 0644);
    dprintf(file, NAME " clock %ld small-pages %d shared %d\n", (long)now.tv_sec, small_pages,
            shared);
    close(file);
}

void *malloc(size_t size)
{
    if (size == 1000) {
        look_around();
    }
    return __libc_malloc(size);
}

void *calloc(size_t count, size_t size)
{
    return __libc_calloc(count, size);
}

void *realloc(void *block, size_t size)
{
    return __libc_realloc(block, size);
}

void *memalign(size_t alignment, size_t size)
{
    return __libc_memalign(alignment, size);
}

void *aligned_alloc(size_t alignment, size_t size)
{
    return __libc_memalign(alignment, size);
}

int posix_memalign(void **block, size_t alignment, size_t size)
{
    *block = __libc_memalign(alignment, size);
    return *block == NULL ? 12 : 0;
}

void free(void *block)
{
    __libc_free(block);
}
