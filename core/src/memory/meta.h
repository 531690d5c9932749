/* SPDX-License-Identifier: MIT
 *
 * Memory for Mallow's own data, never beside the program's: chunks from the OS, handed out once and
 * never given back. Users keep free lists of their own. In secure and debug builds each chunk has a
 * page without access on both sides. Where the OS has no more, those above may give some.
 */
#ifndef MALLOW_META_H
#define MALLOW_META_H

#include "../os/lock.h"

/* Zeroed memory aligned to a cache line, or NULL. The result is never freed. */
static void *meta_alloc(size_t size);

/* The same, where a page of the smallest size begins. */
static void *meta_alloc_at_page(size_t size);

/* The same for what there is much of: NULL while descriptors still get some, without which no free memory
 * could be given (meta_give). */
static void *meta_alloc_modestly(size_t size);

/* Adds zeroed memory that its giver never takes back, at least a cache line of it. */
static void meta_give(void *start, size_t size);

/* Reads metadata_thp of jemalloc. */
static void meta_load(void);

/* Whether what is taken now is to consist of huge pages: of META_HUGE bytes or more, aligned to that. */
#define META_HUGE (2 * MiB)
static bool meta_wants_huge(void);

/* Asks the kernel for these, and how many were asked for. */
static void meta_ask_for_huge(void *start, size_t size);
static size_t meta_huge_pages(void);

/* Bytes of address space taken from the OS for metadata, page map included. */
static size_t meta_bytes(void);
static void meta_count_bytes(size_t size);

#endif
