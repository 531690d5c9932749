/* SPDX-License-Identifier: MIT
 *
 * <jemalloc/jemalloc.h> for programs that bring their own jemalloc, whose names have a prefix. Link with
 * libmallow-je (or what the option MALLOW_JEMALLOC_PREFIX of the C build made). Another prefix than je_
 * is defined before this is included:
 *
 *   #define MW_JEMALLOC_PREFIX _rjem_
 */
#ifndef MALLOW_PREFIXED_JEMALLOC_H
#define MALLOW_PREFIXED_JEMALLOC_H

#ifndef MW_NO_JEMALLOC_NAMES
#define MW_NO_JEMALLOC_NAMES
#endif
#include "../../jemalloc.h"

#ifndef MW_JEMALLOC_PREFIX
#define MW_JEMALLOC_PREFIX je_
#endif

#define MW_JOIN_NOW(a, b) a##b
#define MW_JOIN(a, b) MW_JOIN_NOW(a, b)
#define MW_PREFIXED(name) MW_JOIN(MW_JEMALLOC_PREFIX, name)

#ifdef __cplusplus
extern "C" {
#endif

JEMALLOC_NOTHROW void *MW_PREFIXED(malloc)(size_t size) JEMALLOC_CXX_THROW;
JEMALLOC_NOTHROW void *MW_PREFIXED(calloc)(size_t count, size_t size) JEMALLOC_CXX_THROW;
JEMALLOC_NOTHROW void *MW_PREFIXED(realloc)(void *block, size_t size) JEMALLOC_CXX_THROW;
JEMALLOC_NOTHROW void MW_PREFIXED(free)(void *block) JEMALLOC_CXX_THROW;
JEMALLOC_NOTHROW void MW_PREFIXED(free_sized)(void *block, size_t size);
JEMALLOC_NOTHROW void MW_PREFIXED(free_aligned_sized)(void *block, size_t alignment, size_t size);
JEMALLOC_NOTHROW void *MW_PREFIXED(aligned_alloc)(size_t alignment, size_t size) JEMALLOC_CXX_THROW;
JEMALLOC_NOTHROW void *MW_PREFIXED(memalign)(size_t alignment, size_t size) JEMALLOC_CXX_THROW;
JEMALLOC_NOTHROW int MW_PREFIXED(posix_memalign)(void **out, size_t alignment,
                                                 size_t size) JEMALLOC_CXX_THROW;
JEMALLOC_NOTHROW void *MW_PREFIXED(valloc)(size_t size) JEMALLOC_CXX_THROW;
JEMALLOC_NOTHROW void *MW_PREFIXED(pvalloc)(size_t size) JEMALLOC_CXX_THROW;
JEMALLOC_NOTHROW size_t MW_PREFIXED(malloc_usable_size)(void *block) JEMALLOC_CXX_THROW;

JEMALLOC_NOTHROW void *MW_PREFIXED(mallocx)(size_t size, int flags);
JEMALLOC_NOTHROW void *MW_PREFIXED(rallocx)(void *block, size_t size, int flags);
JEMALLOC_NOTHROW size_t MW_PREFIXED(xallocx)(void *block, size_t size, size_t extra, int flags);
JEMALLOC_NOTHROW size_t MW_PREFIXED(sallocx)(const void *block, int flags);
JEMALLOC_NOTHROW void MW_PREFIXED(dallocx)(void *block, int flags);
JEMALLOC_NOTHROW void MW_PREFIXED(sdallocx)(void *block, size_t size, int flags);
JEMALLOC_NOTHROW size_t MW_PREFIXED(nallocx)(size_t size, int flags);
JEMALLOC_NOTHROW int MW_PREFIXED(get_defrag_hint)(void *block);
JEMALLOC_NOTHROW int MW_PREFIXED(mallctl)(const char *name, void *old_value, size_t *old_size,
                                          void *new_value, size_t new_size);
JEMALLOC_NOTHROW int MW_PREFIXED(mallctlnametomib)(const char *name, size_t *mib, size_t *mib_size);
JEMALLOC_NOTHROW int MW_PREFIXED(mallctlbymib)(const size_t *mib, size_t mib_size, void *old_value,
                                               size_t *old_size, void *new_value, size_t new_size);
JEMALLOC_NOTHROW void MW_PREFIXED(malloc_stats_print)(void (*write)(void *context,
                                                                    const char *text),
                                                      void *context, const char *options);

extern void (*MW_PREFIXED(malloc_message))(void *context, const char *text);
extern const char *MW_PREFIXED(malloc_conf);
extern const char *MW_PREFIXED(malloc_conf_2_conf_harder);

#ifdef __cplusplus
}
#endif

#endif
