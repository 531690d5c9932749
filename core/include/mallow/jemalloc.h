/* SPDX-License-Identifier: MIT
 *
 * jemalloc's interface (that of 5.3.0), served by Mallow. docs/jemalloc.md says what each name and
 * option does here, and what is refused.
 *
 * Each function has two names: jemalloc's own, and a twin that begins with mw_. A program that is
 * linked with another jemalloc, or wants none of the plain names, defines MW_NO_JEMALLOC_NAMES
 * before it includes this.
 */
#ifndef MALLOW_JEMALLOC_H
#define MALLOW_JEMALLOC_H

#include "../mallow.h"

#include <limits.h>
#include <strings.h>

#ifndef MW_NO_JEMALLOC_NAMES
/* The standard functions, which jemalloc's header declares too. */
#include <malloc.h>
#include <stdlib.h>
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* What `mallctl("version")` says. Programs compare the numbers. */
#define JEMALLOC_VERSION "5.3.0-mallow-" MW_VERSION_STRING
#define JEMALLOC_VERSION_MAJOR 5
#define JEMALLOC_VERSION_MINOR 3
#define JEMALLOC_VERSION_BUGFIX 0
#define JEMALLOC_VERSION_NREV 0
#define JEMALLOC_VERSION_GID "mallow"
#define JEMALLOC_VERSION_GID_IDENT mallow

/* What declarations of jemalloc's header are made of. Programs declare its functions anew with these, weakly,
 * to see at run time whether it is there (RocksDB, folly). Those of another jemalloc's header stay. */
#ifndef JEMALLOC_ATTR
#if defined(__GNUC__)
#define JEMALLOC_HAVE_ATTR
#define JEMALLOC_HAVE_ATTR_ALLOC_SIZE
#define JEMALLOC_ATTR(s) __attribute__((s))
#else
#define JEMALLOC_ATTR(s)
#endif
#define JEMALLOC_ALIGNED(s) JEMALLOC_ATTR(aligned(s))
#define JEMALLOC_ALLOC_SIZE(s) JEMALLOC_ATTR(alloc_size(s))
#define JEMALLOC_ALLOC_SIZE2(s1, s2) JEMALLOC_ATTR(alloc_size(s1, s2))
#define JEMALLOC_EXPORT JEMALLOC_ATTR(visibility("default"))
#define JEMALLOC_NOINLINE JEMALLOC_ATTR(noinline)
#define JEMALLOC_NOTHROW JEMALLOC_ATTR(nothrow)
#define JEMALLOC_SYS_NOTHROW JEMALLOC_NOTHROW
#define JEMALLOC_SECTION(s) JEMALLOC_ATTR(section(s))
#define JEMALLOC_RESTRICT_RETURN
#define JEMALLOC_ALLOCATOR
#define JEMALLOC_USABLE_SIZE_CONST
/* As the C library declares the standard functions. */
#if defined(__cplusplus) && defined(__GLIBC__)
#define JEMALLOC_USE_CXX_THROW
#define JEMALLOC_CXX_THROW __THROW
#else
#define JEMALLOC_CXX_THROW
#endif
#endif

/* --- Flags of the functions ending in x ---------------------------------------------------------
 * Any of these, joined by |. */

/* Aligned to 2 to the power of la; aligned to a, a power of two. */
#define MALLOCX_LG_ALIGN(la) ((int)(la))
#define MALLOCX_ALIGN(a)                                                 \
    ((int)(((size_t)(a) < (size_t)INT_MAX) ? (size_t)(ffs((int)(a)) - 1) \
                                           : (size_t)(ffs((int)((size_t)(a) >> 32)) + 31)))

/* New bytes are zero; when a block grows, those behind its usable size before. */
#define MALLOCX_ZERO ((int)0x40)

/* Which cache and which arena serve the call. What an arena gives goes back to it at once, whoever
 * frees it, and passes caches by. */
#define MALLOCX_TCACHE(tc) ((int)(((tc) + 2) << 8))
#define MALLOCX_TCACHE_NONE MALLOCX_TCACHE(-1)
#define MALLOCX_ARENA(a) ((((int)(a)) + 1) << 20)

/* Indices that stand for all arenas, and for those that were destroyed, in names of mallctl. */
#define MALLCTL_ARENAS_ALL 4096
#define MALLCTL_ARENAS_DESTROYED 4097

/* --- Allocation -------------------------------------------------------------------------------- */

/* At least `size` bytes; NULL with errno ENOMEM if out of memory, or if the alignment can never be
 * had. A size of 0, which jemalloc leaves undefined, gives the smallest block. */
MW_OF_BLOCKS void *mw_mallocx(size_t size, int flags);

/* Resizes `block`, which may move; NULL if out of memory, and `block` stays as it was. A `block` of
 * NULL behaves as mallocx, a size of 0 as one of 1. */
MW_OF_BLOCKS void *mw_rallocx(void *block, size_t size, int flags);

/* Resizes `block` where it is, to at least `size` bytes and at most about `size` + `extra`, if that
 * is possible. Returns its usable size then, which is less than `size` if it was not. */
MW_OF_BLOCKS size_t mw_xallocx(void *block, size_t size, size_t extra, int flags);

/* The usable size of a block. */
MW_OF_BLOCKS size_t mw_sallocx(const void *block, int flags);

/* Gives a block back; the second is told a size between the one asked for and the usable one. */
MW_OF_BLOCKS void mw_dallocx(void *block, int flags);
MW_OF_BLOCKS void mw_sdallocx(void *block, size_t size, int flags);

/* The usable size that mallocx with the same arguments would give, at least; 0 if it would fail. */
MW_PUBLIC size_t mw_nallocx(size_t size, int flags);

/* Whether the program should move a block of its own: 1 if it lies in a slab that is emptier than others
 * of its size, so that moving such blocks empties slabs, else 0. The program allocates, copies and frees,
 * as Redis's active defragmentation does. */
#define JEMALLOC_FRAG_HINT
MW_PUBLIC int mw_get_defrag_hint(void *block);

/* --- Control -----------------------------------------------------------------------------------
 * Each returns 0 or one of
 *   ENOENT   there is no such name
 *   EINVAL   the length is not that of the value; as much of the value as fits has been copied
 *   EPERM    the value cannot be read, or not be written
 *   EFAULT   the value to be written is not a possible one
 *   EAGAIN   there is no memory for it */

/* Reads the value of a name into *old_value, which has *old_size bytes, and writes *new_value, which
 * has new_size bytes, in its place. Either may be NULL. */
MW_PUBLIC int mw_mallctl(const char *name, void *old_value, size_t *old_size, void *new_value,
                         size_t new_size);

/* The name as numbers, at most *mib_size of them: those in the name are themselves, and may be
 * replaced before mallctlbymib. A smaller *mib_size gives the beginning. */
MW_PUBLIC int mw_mallctlnametomib(const char *name, size_t *mib, size_t *mib_size);
MW_PUBLIC int mw_mallctlbymib(const size_t *mib, size_t mib_size, void *old_value, size_t *old_size,
                              void *new_value, size_t new_size);

/* --- Hooks of arenas ---------------------------------------------------------------------------
 * An arena that "arenas.create" makes may have functions of the program's for its memory. All but alloc
 * return true for "no"; one that is NULL always says no. They may allocate, but not from that arena. */

typedef struct extent_hooks_s extent_hooks_t;

typedef void *(extent_alloc_t)(extent_hooks_t *hooks, void *new_address, size_t size,
                               size_t alignment, bool *zero, bool *commit, unsigned arena);
typedef bool(extent_dalloc_t)(extent_hooks_t *hooks, void *address, size_t size, bool committed,
                              unsigned arena);
typedef void(extent_destroy_t)(extent_hooks_t *hooks, void *address, size_t size, bool committed,
                               unsigned arena);
typedef bool(extent_commit_t)(extent_hooks_t *hooks, void *address, size_t size, size_t offset,
                              size_t length, unsigned arena);
typedef bool(extent_decommit_t)(extent_hooks_t *hooks, void *address, size_t size, size_t offset,
                                size_t length, unsigned arena);
typedef bool(extent_purge_t)(extent_hooks_t *hooks, void *address, size_t size, size_t offset,
                             size_t length, unsigned arena);
typedef bool(extent_split_t)(extent_hooks_t *hooks, void *address, size_t size, size_t size_a,
                             size_t size_b, bool committed, unsigned arena);
typedef bool(extent_merge_t)(extent_hooks_t *hooks, void *address_a, size_t size_a, void *address_b,
                             size_t size_b, bool committed, unsigned arena);

struct extent_hooks_s {
    extent_alloc_t *alloc;
    extent_dalloc_t *dalloc;
    extent_destroy_t *destroy;
    extent_commit_t *commit;
    extent_decommit_t *decommit;
    extent_purge_t *purge_lazy;
    extent_purge_t *purge_forced;
    extent_split_t *split;
    extent_merge_t *merge;
};

/* --- jemalloc's names ------------------------------------------------------------------------- */

#ifndef MW_NO_JEMALLOC_NAMES

MW_PUBLIC JEMALLOC_NOTHROW void *mallocx(size_t size, int flags);
MW_PUBLIC JEMALLOC_NOTHROW void *rallocx(void *block, size_t size, int flags);
MW_PUBLIC JEMALLOC_NOTHROW size_t xallocx(void *block, size_t size, size_t extra, int flags);
MW_PUBLIC JEMALLOC_NOTHROW size_t sallocx(const void *block, int flags);
MW_PUBLIC JEMALLOC_NOTHROW void dallocx(void *block, int flags);
MW_PUBLIC JEMALLOC_NOTHROW void sdallocx(void *block, size_t size, int flags);
MW_PUBLIC JEMALLOC_NOTHROW size_t nallocx(size_t size, int flags);
MW_PUBLIC JEMALLOC_NOTHROW int je_get_defrag_hint(void *block);
MW_PUBLIC JEMALLOC_NOTHROW int mallctl(const char *name, void *old_value, size_t *old_size,
                                       void *new_value, size_t new_size);
MW_PUBLIC JEMALLOC_NOTHROW int mallctlnametomib(const char *name, size_t *mib, size_t *mib_size);
MW_PUBLIC JEMALLOC_NOTHROW int mallctlbymib(const size_t *mib, size_t mib_size, void *old_value,
                                            size_t *old_size, void *new_value, size_t new_size);

/* Writes the state of the heap, as mw_malloc_stats_print of mallow.h does; where `write` is NULL, with
 * malloc_message if the program has set it, else to standard error. */
MW_PUBLIC JEMALLOC_NOTHROW void malloc_stats_print(void (*write)(void *context, const char *text),
                                                   void *context, const char *options);
extern void (*malloc_message)(void *context, const char *text);

/* What a program defines to configure the allocator: key:value,key:value. Read at load. The second
 * is read behind the environment, and so wins over it. */
extern const char *malloc_conf;
extern const char *malloc_conf_2_conf_harder;

#endif

#ifdef __cplusplus
}
#endif

#endif
