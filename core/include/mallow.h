/* SPDX-License-Identifier: MIT
 *
 * The public interface of the Mallow allocator.
 *
 * Every function is safe to call from any thread at any time unless its comment says otherwise.
 * All sizes are bytes. Each mw_ function is the twin of the standard function of the same name and
 * allocates from the same memory: a block from malloc may be given to mw_free and the other way
 * round, as long as both come from one copy of the library.
 */
#ifndef MALLOW_H
#define MALLOW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define MW_VERSION_MAJOR 0
#define MW_VERSION_MINOR 1
#define MW_VERSION_PATCH 0
#define MW_VERSION_STRING "0.1.0"

#ifndef MW_PUBLIC
#if defined(__GNUC__)
#define MW_PUBLIC __attribute__((visibility("default")))
#else
#define MW_PUBLIC
#endif
#endif

/* What a musl with Mallow inside exports as well (docs/musl.md). */
#ifndef MW_ALSO_OF_LIBC
#define MW_ALSO_OF_LIBC MW_PUBLIC
#endif

/* Functions that give, take or look at blocks, which the allocator may define in two forms. */
#ifndef MW_OF_BLOCKS
#define MW_OF_BLOCKS MW_PUBLIC
#endif

/* --- Standard allocation ---------------------------------------------------------------------
 * On failure: NULL with errno ENOMEM. A size of 0 gives a unique block that may be freed. Sizes
 * over PTRDIFF_MAX always fail. Blocks are aligned to 16 bytes, those of up to 8 bytes to 8. */

/* At least `size` bytes, content undefined. */
MW_OF_BLOCKS void *mw_malloc(size_t size);

/* `count` * `size` bytes, all zero; the product is checked for overflow. */
MW_OF_BLOCKS void *mw_calloc(size_t count, size_t size);

/* Resizes `block`, keeping the common prefix. NULL behaves as malloc; size 0 frees `block` and
 * returns NULL, as in glibc. On failure `block` stays as it was. */
MW_OF_BLOCKS void *mw_realloc(void *block, size_t size);

/* realloc of `count` * `size` bytes, checked for overflow. */
MW_OF_BLOCKS void *mw_reallocarray(void *block, size_t count, size_t size);

/* Gives a block back; NULL is ignored; errno is kept. Misuse ends the program with one sentence. */
MW_OF_BLOCKS void mw_free(void *block);
MW_OF_BLOCKS void mw_cfree(void *block);

/* free for a caller who knows the size or the alignment that was asked for (C23). */
MW_OF_BLOCKS void mw_free_sized(void *block, size_t size);
MW_OF_BLOCKS void mw_free_aligned_sized(void *block, size_t alignment, size_t size);

/* --- Aligned allocation ------------------------------------------------------------------------
 * `alignment` is a power of two; anything else fails with EINVAL. The size need not be a multiple
 * of it. */
MW_OF_BLOCKS void *mw_aligned_alloc(size_t alignment, size_t size);

/* Rounds an alignment that is no power of two up to the next one, as glibc does. */
MW_OF_BLOCKS void *mw_memalign(size_t alignment, size_t size);

/* Stores the block in *out and returns 0, or returns EINVAL (alignment no power of two or no
 * multiple of sizeof(void *)) or ENOMEM and leaves *out; errno is kept. */
MW_OF_BLOCKS int mw_posix_memalign(void **out, size_t alignment, size_t size);

/* Page-aligned; pvalloc also rounds the size up to whole pages. */
MW_OF_BLOCKS void *mw_valloc(size_t size);
MW_OF_BLOCKS void *mw_pvalloc(size_t size);

/* --- Sizes -------------------------------------------------------------------------------------*/

/* Bytes that may be used in `block`, at least what was asked for; 0 for NULL. */
MW_OF_BLOCKS size_t mw_malloc_usable_size(const void *block);

/* What malloc_usable_size would say of a block of `size` bytes; `size` itself if it is too large. */
MW_PUBLIC size_t mw_malloc_good_size(size_t size);

/* --- Control -----------------------------------------------------------------------------------*/

/* The layout of glibc's struct mallinfo2. */
struct mw_mallinfo2 {
    size_t arena;    /* bytes mapped, used or not, without very large blocks in use */
    size_t ordblks;  /* free extents */
    size_t smblks;   /* free slots */
    size_t hblks;    /* very large blocks, each in a mapping of its own */
    size_t hblkhd;   /* bytes in those */
    size_t usmblks;  /* 0 */
    size_t fsmblks;  /* bytes in free slots */
    size_t uordblks; /* bytes in use, without very large blocks */
    size_t fordblks; /* bytes free, resident or not: arena less uordblks */
    size_t keepcost; /* bytes that malloc_trim could give back now */
};

/* The layout of glibc's struct mallinfo; values over INT_MAX are given as INT_MAX. */
struct mw_mallinfo {
    int arena, ordblks, smblks, hblks, hblkhd, usmblks, fsmblks, uordblks, fordblks, keepcost;
};

MW_PUBLIC struct mw_mallinfo mw_mallinfo(void);
MW_PUBLIC struct mw_mallinfo2 mw_mallinfo2(void);

/* Gives free memory back to the kernel except about `pad` bytes; 1 if any was given. What threads other than the
 * calling one have in their lists stays: up to some MiB of one that was busy, until it calls again. */
MW_PUBLIC int mw_malloc_trim(size_t pad);

/* glibc's mallopt parameters. 1 if the value was taken or is harmless to ignore, 0 if it is not
 * valid. M_TRIM_THRESHOLD -1 stops decay, M_PERTURB fills; the others have no counterpart here. */
MW_PUBLIC int mw_mallopt(int param, int value);

/* Writes the state of the heap as XML, in glibc's form, to a FILE *. `options` must be 0: else
 * EINVAL is returned. */
MW_PUBLIC int mw_malloc_info(int options, void *stream);

/* Prints a summary to standard error. */
MW_PUBLIC void mw_malloc_stats(void);

/* jemalloc's malloc_stats_print: writes the state of the heap as text, or with 'J' in `options` as the
 * JSON object that jemalloc's readers know. The other letters leave a part out: g general, m merged,
 * d destroyed, a arenas, b bins, l large blocks, x mutexes, e extents, h huge pages. `write` gets
 * pieces that end with 0; NULL: malloc_message if the program has set it, else standard error. It may
 * allocate. docs/stats.md says what the figures mean. */
MW_PUBLIC void mw_malloc_stats_print(void (*write)(void *context, const char *text), void *context,
                                     const char *options);

/* --- Misuse ------------------------------------------------------------------------------------*/

/* What a misuse handler is told; valid during the call. */
struct mw_misuse {
    const char *kind;     /* a word of docs/fault-report.md: "double-free", "overflow", ... */
    const char *sentence; /* what was printed, without "mallow: " */
    const void *pointer;  /* what the call was given, or was accessed, without a tag; may be NULL */
    const void *block;    /* the block that it is about; NULL if that is not known */
    size_t size;          /* of the block, as the program asked for it; 0 if that is not known */
    bool goes_on;         /* the program goes on when the handler returns: option misuse:continue */
};

typedef void (*mw_misuse_handler)(const struct mw_misuse *misuse);

/* Sets what is called once a misuse is told, before the program ends by SIGABRT; NULL: nothing.
 * Returns what was set before. The handler runs in the thread that was found out, inside its call of
 * malloc or free, or where an access trapped: also in signal handlers and in children of fork. It may
 * write and _exit. It may not use the block, which counts as freed by then where the call was to free it: its size
 * is told. It may allocate and free, but the heap may be damaged: if that finds another
 * misuse, or needs a lock that the interrupted call holds, the program ends at once. It must return
 * or end the process, and not wait for threads that allocate. */
MW_PUBLIC mw_misuse_handler mw_set_misuse_handler(mw_misuse_handler handler);

/* --- Statistics --------------------------------------------------------------------------------
 * Figures have names, as docs/stats.md lists them: "allocated", "all.class.48.allocations",
 * "arena.0.dirty_bytes", "lock.heaps.waits". All that mw_stats_each shows is of one moment; while
 * other threads allocate, figures of it may not add up. Reading walks over the whole heap. */

enum mw_stat_type {
    MW_STAT_COUNTER, /* only grows */
    MW_STAT_GAUGE,   /* what is so now */
    MW_STAT_PEAK,    /* the most so far */
    MW_STAT_FACT     /* never changes */
};

struct mw_stat {
    const char *name; /* valid during the call */
    uint64_t value;
    enum mw_stat_type type;
    const char *unit;
    const char *help;
};

/* Calls `visit` with each figure. It may allocate. Where there is no memory to gather those of each arena in, those of all
 * are told as those of arena 0; false only where another thread is at that. */
MW_PUBLIC bool mw_stats_each(void (*visit)(void *context, const struct mw_stat *stat),
                             void *context);

/* One figure by its name. False, and *value as it was, if there is none. */
MW_PUBLIC bool mw_stats_read(const char *name, uint64_t *value);

/* Gives the calling thread's cached memory back to the arenas and lets decay run at once; with
 * `force` free memory goes back to the kernel now, as by mw_malloc_trim(0). */
MW_ALSO_OF_LIBC void mw_collect(bool force);

/* The library's version, such as "0.1.0 fast". */
MW_PUBLIC const char *mw_version(void);

/* Checks every invariant of the heap, slowly. Returns true, or ends the program with a sentence
 * that names the broken one. Other threads must not allocate meanwhile. Builds without assertions
 * check what they can. */
MW_OF_BLOCKS bool mw_heap_is_valid(void);

#ifdef __cplusplus
}
#endif

#endif
