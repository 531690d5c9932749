/* SPDX-License-Identifier: MIT
 *
 * In the build with memory tags (os/tags.h) every function that gives or takes blocks exists twice: the
 * one that all of the allocator is made of, for which no pointer has a tag, and the one of that name that
 * the program calls, in entry/shim_tags.c. Here the first get names of their own, up to that file.
 */
#ifndef MALLOW_INNER_NAMES_H
#define MALLOW_INNER_NAMES_H

#define MW_OF_BLOCKS __attribute__((visibility("hidden")))

#define mw_malloc mw_inner_malloc
#define mw_calloc mw_inner_calloc
#define mw_realloc mw_inner_realloc
#define mw_reallocarray mw_inner_reallocarray
#define mw_free mw_inner_free
#define mw_cfree mw_inner_cfree
#define mw_free_sized mw_inner_free_sized
#define mw_free_aligned_sized mw_inner_free_aligned_sized
#define mw_aligned_alloc mw_inner_aligned_alloc
#define mw_memalign mw_inner_memalign
#define mw_posix_memalign mw_inner_posix_memalign
#define mw_valloc mw_inner_valloc
#define mw_pvalloc mw_inner_pvalloc
#define mw_malloc_usable_size mw_inner_malloc_usable_size
#define mw_mallocx mw_inner_mallocx
#define mw_rallocx mw_inner_rallocx
#define mw_xallocx mw_inner_xallocx
#define mw_sallocx mw_inner_sallocx
#define mw_dallocx mw_inner_dallocx
#define mw_sdallocx mw_inner_sdallocx
#define mw_heap_is_valid mw_inner_heap_is_valid

#endif
