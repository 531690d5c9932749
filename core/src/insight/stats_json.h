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
    uint64_t large_nmalloc, large_ndalloc;
};

/* Mallow's own data belongs to no arena: here it is the first one's. */
static struct stats_words stats_words_of(const struct stats *stats,
                                         const struct stats_arena *arena);

/* Whether what the process has only once stands with this arena. */
static bool stats_has_common(const struct stats *stats, const struct stats_arena *arena);

#endif
