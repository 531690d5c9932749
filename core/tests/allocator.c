/* SPDX-License-Identifier: MIT
 *
 * Binds the t_ names of allocator.h to the libc names, to the mw_ names, or, where there is one, to
 * the name under which glibc calls itself (__libc_malloc ...). The prototypes are
 * written out here, not taken from libc's headers: cfree, free_sized and others are in no header of
 * today's libcs, and the structs of mallinfo are Mallow's.
 */
#include "allocator.h"

#include <string.h>

#ifdef TEST_MW_NAMES
#define NAME(function) mw_##function
const bool t_names_are_libc = false;
#elif defined(TEST_MUSL_NAMES)
/* Inside musl, which has only these, and mw_collect. What it has no name for is made of them; tests of
 * more than that are not linked (packaging/musl/test). */
#include <malloc.h>
#include <stdlib.h>
#include <unistd.h>

#define NAME(function) function
const bool t_names_are_libc = true;

#define cfree free
#define free_sized(block, size) ((void)(size), free(block))
#define free_aligned_sized(block, alignment, size) ((void)(alignment), (void)(size), free(block))
#define valloc(size) memalign((size_t)sysconf(_SC_PAGESIZE), size)
#define pvalloc(size) memalign((size_t)sysconf(_SC_PAGESIZE), whole_pages(size))
#define malloc_trim(pad) ((void)(pad), mw_collect(true), 1)

static size_t whole_pages(size_t size)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    return size == 0 ? page : size > SIZE_MAX - page ? SIZE_MAX : (size + page - 1) / page * page;
}
#else
#define NAME(function) function
const bool t_names_are_libc = true;

void *malloc(size_t size);
void *calloc(size_t count, size_t size);
void *realloc(void *block, size_t size);
void *reallocarray(void *block, size_t count, size_t size);
void free(void *block);
void cfree(void *block);
void free_sized(void *block, size_t size);
void free_aligned_sized(void *block, size_t alignment, size_t size);
void *aligned_alloc(size_t alignment, size_t size);
void *memalign(size_t alignment, size_t size);
int posix_memalign(void **out, size_t alignment, size_t size);
void *valloc(size_t size);
void *pvalloc(size_t size);
size_t malloc_usable_size(void *block);
size_t malloc_good_size(size_t size);
struct mw_mallinfo mallinfo(void);
struct mw_mallinfo2 mallinfo2(void);
int malloc_trim(size_t pad);
int mallopt(int param, int value);
int malloc_info(int options, void *stream);
void malloc_stats(void);
#endif

#ifdef TEST_INNER_NAMES
#define INNER(function) __libc_##function
#define INNER_POSIX_MEMALIGN __posix_memalign

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *block, size_t size);
void *__libc_reallocarray(void *block, size_t count, size_t size);
void __libc_free(void *block);
void __libc_cfree(void *block);
void *__libc_memalign(size_t alignment, size_t size);
void *__libc_valloc(size_t size);
void *__libc_pvalloc(size_t size);
int __posix_memalign(void **out, size_t alignment, size_t size);
#else
#define INNER NAME
#define INNER_POSIX_MEMALIGN NAME(posix_memalign)
#endif

void *t_malloc(size_t size)
{
    return INNER(malloc)(size);
}

void *t_calloc(size_t count, size_t size)
{
    return INNER(calloc)(count, size);
}

void *t_realloc(void *block, size_t size)
{
    return INNER(realloc)(block, size);
}

void *t_reallocarray(void *block, size_t count, size_t size)
{
    return INNER(reallocarray)(block, count, size);
}

void t_free(void *block)
{
    INNER(free)(block);
}

void t_cfree(void *block)
{
    INNER(cfree)(block);
}

void t_free_sized(void *block, size_t size)
{
    NAME(free_sized)(block, size);
}

void t_free_aligned_sized(void *block, size_t alignment, size_t size)
{
    NAME(free_aligned_sized)(block, alignment, size);
}

void *t_aligned_alloc(size_t alignment, size_t size)
{
    return NAME(aligned_alloc)(alignment, size);
}

void *t_memalign(size_t alignment, size_t size)
{
    return INNER(memalign)(alignment, size);
}

int t_posix_memalign(void **out, size_t alignment, size_t size)
{
    return INNER_POSIX_MEMALIGN(out, alignment, size);
}

void *t_valloc(size_t size)
{
    return INNER(valloc)(size);
}

void *t_pvalloc(size_t size)
{
    return INNER(pvalloc)(size);
}

size_t t_rounds(size_t rounds)
{
#ifdef TEST_SHORT
    return rounds / 10;
#else
    return rounds;
#endif
}

size_t t_malloc_usable_size(void *block)
{
    return NAME(malloc_usable_size)(block);
}

int t_malloc_trim(size_t pad)
{
    return NAME(malloc_trim)(pad);
}

#ifndef TEST_MUSL_NAMES
size_t t_malloc_good_size(size_t size)
{
    return NAME(malloc_good_size)(size);
}

struct mw_mallinfo t_mallinfo(void)
{
    return NAME(mallinfo)();
}

struct mw_mallinfo2 t_mallinfo2(void)
{
    return NAME(mallinfo2)();
}

int t_mallopt(int param, int value)
{
    return NAME(mallopt)(param, value);
}

int t_malloc_info(int options, void *stream)
{
    return NAME(malloc_info)(options, stream);
}

void t_malloc_stats(void)
{
    NAME(malloc_stats)();
}

const char *mw_version(void);

bool t_has_canaries(void)
{
    return strstr(mw_version(), "secure") != NULL;
}

bool t_has_red_zones(void)
{
    return strstr(mw_version(), "debug") != NULL;
}
#endif
