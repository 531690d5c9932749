/* SPDX-License-Identifier: MIT
 *
 * What the three builds differ in, as constants that are always defined, so that code says
 * `if (MW_FILL)` and every build compiles all of it. A builder chooses MW_MODE and nothing else.
 */
#ifndef MALLOW_CONFIG_H
#define MALLOW_CONFIG_H

#define MW_FAST 0
#define MW_SECURE 1
#define MW_DEBUG 2

#ifndef MW_MODE
#define MW_MODE MW_FAST
#endif

/* Where the allocator lives: in a library of its own, or inside musl (packaging/musl). There it has what
 * a libc needs: no profiles, no statistics, and of the C library only what a libc may use itself. */
#define MW_STANDALONE 0
#define MW_LIBC 1

#ifndef MW_PROFILE
#define MW_PROFILE MW_STANDALONE
#endif
#define MW_IN_LIBC (MW_PROFILE == MW_LIBC)

/* Exported, but calls among ourselves go straight. A libc exports nearly nothing of ours. */
#ifndef MW_PUBLIC
#if MW_IN_LIBC
#define MW_PUBLIC __attribute__((visibility("hidden")))
#define MW_ALSO_OF_LIBC __attribute__((visibility("protected")))
#else
#define MW_PUBLIC __attribute__((visibility("protected")))
#endif
#endif

/* Whether malloc, free, operator new ... are exported beside the mw_ names. */
#ifndef MW_EXPORT_LIBC
#define MW_EXPORT_LIBC 1
#endif

/* The names of jemalloc's interface, which has its own build where they begin with a prefix. */
#ifdef MW_JEMALLOC_PREFIX
#define MW_HAS_PREFIX 1
#define PREFIXED_NOW(prefix, name) prefix##name
#define PREFIXED_BY(prefix, name) PREFIXED_NOW(prefix, name)
#define PREFIXED(name) PREFIXED_BY(MW_JEMALLOC_PREFIX, name)
#define PREFIX_TEXT_NOW(prefix) #prefix
#define PREFIX_TEXT_BY(prefix) PREFIX_TEXT_NOW(prefix)
#define PREFIX_TEXT PREFIX_TEXT_BY(MW_JEMALLOC_PREFIX)
#else
#define MW_HAS_PREFIX 0
#define PREFIXED(name) name
#define PREFIX_TEXT ""
#endif

/* Whether system calls go through test_syscall(), which a unit test defines. */
#ifndef MW_TEST_SYSCALLS
#define MW_TEST_SYSCALLS 0
#endif

/* 0: only require(); 2: check(); 3: check_slow() as well, which may walk whole lists. */
#ifndef MW_CHECK_LEVEL
#define MW_CHECK_LEVEL (MW_MODE == MW_DEBUG ? 2 : 0)
#endif

/* The order in which a thread takes locks is checked. A test whose threads are none of the system's
 * says no. */
#ifndef MW_LOCK_ORDER
#define MW_LOCK_ORDER (MW_CHECK_LEVEL >= 2)
#endif

/* A bit per slot says whether the program holds it: double and interior frees are always found. */
#define MW_SLOT_BITMAP (MW_MODE != MW_FAST)

/* A slab's owner changes bits of its own, and where one thread is alone it changes all of them, by plain loads and
 * stores. */
#define MW_PLAIN_BITS (MW_MODE == MW_SECURE)

/* The page map tells which list of a heap takes a block. With a bit per slot free has to look at the
 * descriptor anyway. */
#define MW_PAGEMAP_LISTS (!MW_SLOT_BITMAP)

/* Keys and random numbers, which the next ones need. */
#define MW_SECRETS (MW_MODE != MW_FAST)

/* The option `seed` says which random numbers are drawn: the same in each run. Who knows the seed knows the keys. */
#define MW_SEED (MW_MODE == MW_DEBUG)

/* The link in a free slot is encoded, so that what a program writes there is no link. */
#define MW_CODED_LINKS (MW_MODE != MW_FAST)

/* A slot that was freed waits before it is handed out again, and slots are handed out in no order
 * that can be told. */
#define MW_DELAY_FREE (MW_MODE == MW_SECURE)
#define MW_RANDOM (MW_MODE == MW_SECURE)

/* Pages without access before and behind each chunk of metadata. */
#define MW_META_GUARD (MW_MODE != MW_FAST || MW_IN_LIBC)

/* Large blocks lie between pages without access, and wait without access after they were freed
 * (memory/fence.h, slots/retired.h). Where blocks are tracked, track.h sees to that. */
#define MW_FENCES (MW_MODE == MW_SECURE)

/* Slots are filled on free, and the fill of a free slot is checked on reuse. */
#define MW_FILL (MW_MODE != MW_FAST)

/* What is const once the process has begun is read-only from then on (os/seal.c). An archive becomes part of a program,
 * whose loader still writes beside it when malloc is first called; in musl the loader is the library itself. */
#define MW_SEALS (MW_MODE != MW_FAST && MW_SHARED_OBJECT && !MW_IN_LIBC)

/* Behind what the program asked for stand bytes that it must not write, and the size is kept. */
#define MW_CANARY (MW_MODE == MW_SECURE)

/* Blocks of slabs have memory tags where the CPU has them (os/tags.h). Inside a libc none: its own calls
 * would have to go through the shim. */
#if defined(__aarch64__)
#define MW_TAGS (MW_MODE == MW_SECURE && !MW_IN_LIBC)
#else
#define MW_TAGS 0
#endif

/* A block keeps which family of functions made it (slots/made.h). */
#define MW_FAMILIES (MW_MODE != MW_FAST)

/* A block is known by its exact size and by the calls that allocated and freed it, lies between
 * red zones, and waits in a quarantine after it was freed (slots/track.h). A unit test of what lies
 * below says no. */
#ifndef MW_TRACK
#define MW_TRACK (MW_MODE == MW_DEBUG)
#endif

/* A limit that is low in debug builds, so that tests come to what is beyond it. */
#define MW_LIMIT(limit, in_debug) (MW_MODE == MW_DEBUG ? (in_debug) : (limit))

/* Slots per slab at most. With a bitmap it lies in the descriptor and must stay small, but the smallest
 * slab is a page: where that may have 64 KiB, as many slots of 16 bytes. */
#if defined(__aarch64__)
#define MW_BITMAP_SLOTS 4096u
#else
#define MW_BITMAP_SLOTS 1024u
#endif
#define SLAB_SLOTS_MAX (MW_SLOT_BITMAP ? MW_BITMAP_SLOTS : 65535u)

#endif
