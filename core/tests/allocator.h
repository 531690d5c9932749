/* SPDX-License-Identifier: MIT
 *
 * The allocator under test, by names of its own (t_malloc ...). allocator.c binds them either to
 * the libc names or, with TEST_MW_NAMES, to the mw_ names, so that the same test objects serve both.
 * They are calls into another translation unit without any attribute: the compiler knows nothing
 * of them and so can neither remove a malloc/free pair nor reason about a block's content.
 */
#ifndef TEST_ALLOCATOR_H
#define TEST_ALLOCATOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "mallow.h"

void *t_malloc(size_t size);
void *t_calloc(size_t count, size_t size);
void *t_realloc(void *block, size_t size);
void *t_reallocarray(void *block, size_t count, size_t size);
void t_free(void *block);
void t_cfree(void *block);
void t_free_sized(void *block, size_t size);
void t_free_aligned_sized(void *block, size_t alignment, size_t size);
void *t_aligned_alloc(size_t alignment, size_t size);
void *t_memalign(size_t alignment, size_t size);
int t_posix_memalign(void **out, size_t alignment, size_t size);
void *t_valloc(size_t size);
void *t_pvalloc(size_t size);
size_t t_malloc_usable_size(void *block);
size_t t_malloc_good_size(size_t size);
struct mw_mallinfo t_mallinfo(void);
struct mw_mallinfo2 t_mallinfo2(void);
int t_malloc_trim(size_t pad);
int t_mallopt(int param, int value);
int t_malloc_info(int options, void *stream);
void t_malloc_stats(void);

/* True in the debug build: blocks lie between red zones in larger slots, so figures by size class are
 * not those of the sizes that were asked for. */
bool t_has_red_zones(void);

/* True in the secure build: a slot holds eight bytes more than what was asked for. */
bool t_has_canaries(void);

/* So many rounds of a long test; with TEST_SHORT a tenth of them: of programs of the same tests and the
 * same allocator, which differ in the names that they call or in how they are linked, one does all. */
size_t t_rounds(size_t rounds);

/* True where the libc names are the allocator under test: C++ operators and libc itself use it. */
extern const bool t_names_are_libc;

#endif
