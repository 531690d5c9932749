/* SPDX-License-Identifier: MIT
 *
 * The libc's names for our functions. Aliases, so that no call is added.
 */
#include "../insight/report.h"

#include <stdio.h>

#define PUBLIC_ALIAS(target) __attribute__((alias(#target), visibility("default")))

void *malloc(size_t size) PUBLIC_ALIAS(mw_malloc);
void *calloc(size_t count, size_t size) PUBLIC_ALIAS(mw_calloc);
void *realloc(void *block, size_t size) PUBLIC_ALIAS(mw_realloc);
void free(void *block) PUBLIC_ALIAS(mw_free);
void cfree(void *block) PUBLIC_ALIAS(mw_cfree);
void free_sized(void *block, size_t size) PUBLIC_ALIAS(mw_free_sized);
void free_aligned_sized(void *block, size_t alignment, size_t size)
    PUBLIC_ALIAS(mw_free_aligned_sized);
void *aligned_alloc(size_t alignment, size_t size) PUBLIC_ALIAS(mw_aligned_alloc);
void *memalign(size_t alignment, size_t size) PUBLIC_ALIAS(mw_memalign);
int posix_memalign(void **out, size_t alignment, size_t size) PUBLIC_ALIAS(mw_posix_memalign);
void *valloc(size_t size) PUBLIC_ALIAS(mw_valloc);
void *pvalloc(size_t size) PUBLIC_ALIAS(mw_pvalloc);
size_t malloc_usable_size(void *block) PUBLIC_ALIAS(mw_malloc_usable_size);
size_t malloc_good_size(size_t size) PUBLIC_ALIAS(mw_malloc_good_size);

/* Through realloc by its public name, as glibc's: the blocks of an allocator in front of this one
 * that has no reallocarray are its own. */
__attribute__((visibility("default"))) void *reallocarray(void *block, size_t count, size_t size)
{
    size_t bytes;
    return likely(!__builtin_mul_overflow(count, size, &bytes)) ? realloc(block, bytes)
                                                                : alloc_failed();
}

/* glibc's control functions: a preloaded program must not talk to an empty glibc heap. */
struct mw_mallinfo mallinfo(void) PUBLIC_ALIAS(mw_mallinfo);
struct mw_mallinfo2 mallinfo2(void) PUBLIC_ALIAS(mw_mallinfo2);
int malloc_trim(size_t pad) PUBLIC_ALIAS(mw_malloc_trim);
int mallopt(int param, int value) PUBLIC_ALIAS(mw_mallopt);
int malloc_info(int options, FILE *stream) PUBLIC_ALIAS(mw_malloc_info);
void malloc_stats(void) PUBLIC_ALIAS(mw_malloc_stats);

/* jemalloc's, for programs that know it. */
void malloc_stats_print(void (*write)(void *context, const char *text), void *context,
                        const char *options) PUBLIC_ALIAS(mw_malloc_stats_print);

/* The names under which glibc calls itself, and which programs call to get behind an interposer. */
void *__libc_malloc(size_t size) PUBLIC_ALIAS(mw_malloc);
void *__libc_calloc(size_t count, size_t size) PUBLIC_ALIAS(mw_calloc);
void *__libc_realloc(void *block, size_t size) PUBLIC_ALIAS(mw_realloc);
void *__libc_reallocarray(void *block, size_t count, size_t size) PUBLIC_ALIAS(mw_reallocarray);
void __libc_free(void *block) PUBLIC_ALIAS(mw_free);
void __libc_cfree(void *block) PUBLIC_ALIAS(mw_cfree);
void *__libc_memalign(size_t alignment, size_t size) PUBLIC_ALIAS(mw_memalign);
void *__libc_valloc(size_t size) PUBLIC_ALIAS(mw_valloc);
void *__libc_pvalloc(size_t size) PUBLIC_ALIAS(mw_pvalloc);
int __posix_memalign(void **out, size_t alignment, size_t size) PUBLIC_ALIAS(mw_posix_memalign);
