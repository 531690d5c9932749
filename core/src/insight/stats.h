/* SPDX-License-Identifier: MIT
 *
 * All figures of the process at one moment, as stats.def names them: what mw_stats_read, mallctl and
 * the reports read from. Nothing is counted for them on any hit path: what is in use is found by a
 * walk over the extents, what happened is what heaps, arenas and locks counted where lists were
 * handed out, pages taken and locks waited for.
 *
 * Sums that hold while no other thread calls the allocator:
 *
 *   class   allocations - frees == slots_out - slots_cached, over all arenas
 *           (a block in the hole of a slab of a smaller class is a slot of its own class, those that it lies
 *           on are none; remote_frees and what is said of slabs are the slab's)
 *   arena   small_bytes == sum of size * slots_out; a slot is of the arena that its slab is of
 *   all     each figure == the sum over `arenas`; peaks, and sizes, are the largest
 *
 * Allocations and slabs made are of the arena whose heap asked. A heap may use slabs of another arena:
 * so the frees of one arena are an estimate, those of all are not.
 */
#ifndef MALLOW_STATS_H
#define MALLOW_STATS_H

#include "report.h"

#define STATS_FIELD(name, type, unit, help) uint64_t name;

struct stats_process {
#define PROCESS STATS_FIELD
#include "stats.def"
};

struct stats_arena_figures {
#define ARENA STATS_FIELD
#include "stats.def"
};

struct stats_class {
#define CLASS STATS_FIELD
#include "stats.def"
};

struct stats_large {
#define LARGE STATS_FIELD
#include "stats.def"
};

struct stats_extents {
#define EXTENT STATS_FIELD
#include "stats.def"
};

struct stats_heap {
#define HEAP STATS_FIELD
#include "stats.def"
};

struct stats_lock {
#define LOCK STATS_FIELD
#include "stats.def"
};

/* The locks of an arena, and of the process. */
enum { STATS_LOCK_ARENA, STATS_LOCK_PURGE, STATS_LOCK_POOL, STATS_LOCK_GROWTH, STATS_ARENA_LOCKS };
enum {
    STATS_LOCK_PROCESS,
    STATS_LOCK_HEAPS,
    STATS_LOCK_SHARED,
    STATS_LOCK_TRAY,
    STATS_LOCK_ROB,
    STATS_LOCK_META,
    STATS_LOCK_TABLE,
    STATS_LOCK_QUARANTINE,
    STATS_LOCK_EMPTIED,
    STATS_LOCK_LIMIT,
    STATS_LOCK_TABLES,
    STATS_LOCK_GUARDED,
    STATS_PROCESS_LOCKS
};

struct stats_arena {
    struct stats_arena_figures figures;
    struct stats_class classes[CLASSES]; /* class 0 serves no request: all 0 */
    struct stats_large large[LARGE_CLASSES];
    struct stats_extents extents[EXTENT_BINS];
    struct stats_lock locks[STATS_ARENA_LOCKS];
    bool is_made; /* false of a number that no arena has now */
};

struct stats {
    size_t size;          /* bytes of this structure with its arenas */
    size_t room;          /* bytes mapped, in a copy that is kept (ctl_stats.c) */
    unsigned arena_count; /* of `arenas` */
    bool is_folded;       /* there was no memory for more: arenas[0] has the figures of all */
    struct stats_process process;
    struct stats_lock locks[STATS_PROCESS_LOCKS];
    struct stats_arena all;
    struct stats_arena arenas[];
};

/* In jemalloc's words a bin is a class of slots, and all its slabs have one size. Ours begin small: so a
 * slab is counted as many times as a full-grown one goes into it, and sums by its number are right.
 * There is no bin for class 0, which serves no request. */
#define STATS_BINS (CLASSES - 1)
static unsigned stats_bin_class(unsigned bin);
static size_t stats_bin_slab_size(unsigned class);
static uint64_t stats_bin_slots(unsigned class); /* of such a slab */
static uint64_t stats_bin_slabs(const struct stats_class *figures);
static uint64_t stats_bin_nonfull_slabs(const struct stats_class *figures);

/* What jemalloc calls nmalloc: with what is cached, so that nmalloc - ndalloc is what is out. */
static uint64_t stats_bin_nmalloc(const struct stats_class *figures);

/* In jemalloc's words a lextent is a page class whose blocks are larger than any slot: those from STATS_FIRST_LARGE on.
 * Blocks of smaller ones, which are aligned to more than a page or are samples of a profile, stand with the first. */
#define STATS_FIRST_LARGE page_class_of((SLOT_MAX >> os_page_shift) + 1)
#define STATS_LEXTENTS (LARGE_CLASSES - STATS_FIRST_LARGE)

/* Reads all figures into memory of their own, from the kernel: nothing is allocated, no lock is held
 * on return. If there is none, those of all arenas together, into a reserve. NULL if somebody is reading into that.
 * The caller closes it. */
#define STATS_FOLDED_SIZE (sizeof(struct stats) + sizeof(struct stats_arena))
static struct stats *stats_open(void);
static struct stats *stats_open_folded(void);
static void stats_close(struct stats *stats);

/* Lets the counters of all locks begin anew. */
static void stats_reset_locks(void);

/* The figures of one heap; those of the heaps of ended threads count on. */
static struct stats_heap stats_of_heap(struct heap *heap);

/* The names of locks, as in "arena" for STATS_LOCK_ARENA. */
static const char *const stats_arena_lock_names[STATS_ARENA_LOCKS];
static const char *const stats_process_lock_names[STATS_PROCESS_LOCKS];

#endif
