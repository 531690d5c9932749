/* SPDX-License-Identifier: MIT
 *
 * jemalloc's interface with a prefix before each name, as in the copies of jemalloc that programs bring
 * along (je_malloc, _rjem_malloc): such a program can be linked with this instead, and the libc's own
 * malloc stays what it is. MW_JEMALLOC_PREFIX is the prefix.
 */
#include "../insight/report.h"

#define PUBLIC_ALIAS(target) __attribute__((alias(#target), visibility("default")))

void *PREFIXED(malloc)(size_t size) PUBLIC_ALIAS(mw_malloc);
void *PREFIXED(calloc)(size_t count, size_t size) PUBLIC_ALIAS(mw_calloc);
void *PREFIXED(realloc)(void *block, size_t size) PUBLIC_ALIAS(mw_realloc);
void PREFIXED(free)(void *block) PUBLIC_ALIAS(mw_free);
void PREFIXED(free_sized)(void *block, size_t size) PUBLIC_ALIAS(mw_free_sized);
void PREFIXED(free_aligned_sized)(void *block, size_t alignment, size_t size)
    PUBLIC_ALIAS(mw_free_aligned_sized);
void *PREFIXED(aligned_alloc)(size_t alignment, size_t size) PUBLIC_ALIAS(mw_aligned_alloc);
void *PREFIXED(memalign)(size_t alignment, size_t size) PUBLIC_ALIAS(mw_memalign);
int PREFIXED(posix_memalign)(void **out, size_t alignment, size_t size)
    PUBLIC_ALIAS(mw_posix_memalign);
void *PREFIXED(valloc)(size_t size) PUBLIC_ALIAS(mw_valloc);
void *PREFIXED(pvalloc)(size_t size) PUBLIC_ALIAS(mw_pvalloc);
size_t PREFIXED(malloc_usable_size)(void *block) PUBLIC_ALIAS(mw_malloc_usable_size);

void *PREFIXED(mallocx)(size_t size, int flags) PUBLIC_ALIAS(mw_mallocx);
void *PREFIXED(rallocx)(void *block, size_t size, int flags) PUBLIC_ALIAS(mw_rallocx);
size_t PREFIXED(xallocx)(void *block, size_t size, size_t extra, int flags)
    PUBLIC_ALIAS(mw_xallocx);
size_t PREFIXED(sallocx)(const void *block, int flags) PUBLIC_ALIAS(mw_sallocx);
void PREFIXED(dallocx)(void *block, int flags) PUBLIC_ALIAS(mw_dallocx);
void PREFIXED(sdallocx)(void *block, size_t size, int flags) PUBLIC_ALIAS(mw_sdallocx);
size_t PREFIXED(nallocx)(size_t size, int flags) PUBLIC_ALIAS(mw_nallocx);
int PREFIXED(get_defrag_hint)(void *block) PUBLIC_ALIAS(mw_get_defrag_hint);
int PREFIXED(mallctl)(const char *name, void *old_value, size_t *old_size, void *new_value,
                      size_t new_size) PUBLIC_ALIAS(mw_mallctl);
int PREFIXED(mallctlnametomib)(const char *name, size_t *mib, size_t *mib_size)
    PUBLIC_ALIAS(mw_mallctlnametomib);
int PREFIXED(mallctlbymib)(const size_t *mib, size_t mib_size, void *old_value, size_t *old_size,
                           void *new_value, size_t new_size) PUBLIC_ALIAS(mw_mallctlbymib);
void PREFIXED(malloc_stats_print)(void (*write)(void *context, const char *text), void *context,
                                  const char *options) PUBLIC_ALIAS(mw_malloc_stats_print);
