/* SPDX-License-Identifier: MIT
 *
 * In the build with memory tags (os/tags.h) every function that gives or takes blocks exists twice: the
 * one that all of the allocator is made of, for which no pointer has a tag, and the one of that name that
 * the program calls, in entry/shim_tags.c. Here the first get names of their own, up to that file.
 */
#ifndef MALLOW_INNER_NAMES_H
#define MALLOW_INNER_NAMES_H

#define MW_OF_BLOCKS __attribute__((visibility("hidden")))

#define mw_malloc inner_malloc
#define mw_calloc inner_calloc
#define mw_realloc inner_realloc
#define mw_reallocarray inner_reallocarray
#define mw_free inner_free
#define mw_cfree inner_cfree
#define mw_free_sized inner_free_sized
#define mw_free_aligned_sized inner_free_aligned_sized
#define mw_aligned_alloc inner_aligned_alloc
#define mw_memalign inner_memalign
#define mw_posix_memalign inner_posix_memalign
#define mw_valloc inner_valloc
#define mw_pvalloc inner_pvalloc
#define mw_malloc_usable_size inner_malloc_usable_size
#define mw_mallocx inner_mallocx
#define mw_rallocx inner_rallocx
#define mw_xallocx inner_xallocx
#define mw_sallocx inner_sallocx
#define mw_dallocx inner_dallocx
#define mw_sdallocx inner_sdallocx
#define mw_heap_is_valid inner_heap_is_valid

#endif
