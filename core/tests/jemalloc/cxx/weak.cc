// SPDX-License-Identifier: MIT
//
// jemalloc's functions declared anew, weakly, with the macros of its header, as RocksDB and folly do it to see at
// run time whether it is there. Ends with 0 where all are.
#include <jemalloc/jemalloc.h>

#ifndef MW_PREFIXED
#define MW_PREFIXED(name) name
#endif
#define WEAK __attribute__((weak))

extern "C" {
JEMALLOC_ALLOCATOR JEMALLOC_RESTRICT_RETURN void JEMALLOC_NOTHROW *MW_PREFIXED(mallocx)(size_t, int)
    JEMALLOC_ATTR(malloc) JEMALLOC_ALLOC_SIZE(1) WEAK;
JEMALLOC_ALLOCATOR JEMALLOC_RESTRICT_RETURN void JEMALLOC_NOTHROW *MW_PREFIXED(rallocx)(void *,
                                                                                        size_t, int)
    JEMALLOC_ALLOC_SIZE(2) WEAK;
size_t JEMALLOC_NOTHROW MW_PREFIXED(xallocx)(void *, size_t, size_t, int) WEAK;
size_t JEMALLOC_NOTHROW MW_PREFIXED(sallocx)(const void *, int) JEMALLOC_ATTR(pure) WEAK;
void JEMALLOC_NOTHROW MW_PREFIXED(dallocx)(void *, int) WEAK;
void JEMALLOC_NOTHROW MW_PREFIXED(sdallocx)(void *, size_t, int) WEAK;
size_t JEMALLOC_NOTHROW MW_PREFIXED(nallocx)(size_t, int) JEMALLOC_ATTR(pure) WEAK;
int JEMALLOC_NOTHROW MW_PREFIXED(mallctl)(const char *, void *, size_t *, void *, size_t) WEAK;
int JEMALLOC_NOTHROW MW_PREFIXED(mallctlnametomib)(const char *, size_t *, size_t *) WEAK;
int JEMALLOC_NOTHROW MW_PREFIXED(mallctlbymib)(const size_t *, size_t, void *, size_t *, void *,
                                               size_t) WEAK;
void JEMALLOC_NOTHROW MW_PREFIXED(malloc_stats_print)(void (*)(void *, const char *), void *,
                                                      const char *) WEAK;
size_t JEMALLOC_NOTHROW MW_PREFIXED(malloc_usable_size)(JEMALLOC_USABLE_SIZE_CONST void *)
    JEMALLOC_CXX_THROW WEAK;
}

int main()
{
    bool is_there = MW_PREFIXED(mallocx) && MW_PREFIXED(rallocx) && MW_PREFIXED(xallocx) &&
                    MW_PREFIXED(sallocx) && MW_PREFIXED(dallocx) && MW_PREFIXED(sdallocx) &&
                    MW_PREFIXED(nallocx) && MW_PREFIXED(mallctl) && MW_PREFIXED(mallctlnametomib) &&
                    MW_PREFIXED(mallctlbymib) && MW_PREFIXED(malloc_stats_print) &&
                    MW_PREFIXED(malloc_usable_size);
    return is_there ? 0 : 1;
}
