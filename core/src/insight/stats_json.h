/* SPDX-License-Identifier: MIT
 *
 * The figures as the JSON object that jemalloc's malloc_stats_print writes, for readers of it. What
 * Mallow does not have is 0 there, or the word for "off".
 */
#ifndef MALLOW_STATS_JSON_H
#define MALLOW_STATS_JSON_H

#include "stats.h"

/* Parts that may be left out, a letter each. */
struct stats_parts {
    bool general;   /* g */
    bool merged;    /* m */
    bool destroyed; /* d: there are none */
    bool arenas;    /* a */
    bool bins;      /* b */
    bool large;     /* l */
    bool mutexes;   /* x */
    bool extents;   /* e */
    bool hpa;       /* h */
};

static void stats_write_json(struct sink *sink, const struct stats *stats,
                             const struct stats_parts *parts);

/* --- What both forms say ---------------------------------------------------------------------- */

/* An arena in jemalloc's words, in bytes. */
struct stats_words {
    uint64_t active, dirty, muzzy, mapped, retained, base, resident;
    uint64_t small_allocated, small_nmalloc, small_ndalloc, small_nrequests, nfills, nflushes;
    uint64_t large_allocated, large_nmalloc, large_ndalloc;
    uint64_t descriptors, page_map; /* of `base` */
    uint64_t huge_pages;            /* a number, asked for in `base` */
};

/* What the library was built with, and the options that held at the start, a line each, as in jemalloc's text. */
static void stats_write_settings(struct sink *sink);

/* Mallow's own data belongs to no arena: here it is the first one's. */
static struct stats_words stats_words_of(const struct stats *stats,
                                         const struct stats_arena *arena);

/* With the blocks of all smaller page classes if it is the first. */
static struct stats_large stats_lextent(const struct stats_arena *arena, unsigned lextent);

/* Whether what the process has only once stands with this arena. */
static bool stats_has_common(const struct stats *stats, const struct stats_arena *arena);

/* The decay time of an arena; -1 for all together. */
static long stats_decay_ms(const struct stats *stats, const struct stats_arena *arena,
                           bool is_dirty);

/* Names in JSON and of mallctl, as "a|b|c". */
#define WORDS_MUTEX                                                       \
    "background_thread|max_per_bg_thd|ctl|prof|prof_thds_data|prof_dump|" \
    "prof_recent_alloc|prof_recent_dump|prof_stats"
#define WORDS_LOCK                                                                    \
    "large|extent_avail|extents_dirty|extents_muzzy|extents_retained|extents_pinned|" \
    "decay_dirty|decay_muzzy|base|tcache_list|hpa_shard|hpa_shard_grow|hpa_sec"
#define WORDS_COUNTER "num_ops|num_wait|num_spin_acq|num_owner_switch|total_wait_time|max_wait_time"
#define COUNTERS 6u
#define WORDS_HPA                                                                 \
    "npageslabs|nactive|ndirty|npurge_passes|npurges|nhugifies|nhugify_failures|" \
    "ndehugifies"
#define WORDS_SLABS                                                                        \
    "npageslabs_nonhuge|nactive_nonhuge|ndirty_nonhuge|nretained_nonhuge|npageslabs_huge|" \
    "nactive_huge|ndirty_huge"

/* jemalloc has a list of these for each of so many sizes. */
#define STATS_HPA_LISTS 64u

/* The lock that does here what the mutex of that index in WORDS_MUTEX, or in WORDS_LOCK, or the mutex
 * of a bin, does in jemalloc: one of zeros where there is none, NULL if there is no such mutex. */
static const struct stats_lock *stats_global_mutex(const struct stats *stats, size_t index);
static const struct stats_lock *stats_arena_mutex(const struct stats *stats,
                                                  const struct stats_arena *arena, size_t index);
static const struct stats_lock *stats_bin_mutex(const struct stats_arena *arena, size_t bin);

#endif
