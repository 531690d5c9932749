/* SPDX-License-Identifier: MIT */
#define MW_NO_JEMALLOC_NAMES
#include "../../include/mallow/jemalloc.h"
#include "stats_text.h"

#include "../api/realloc.h"
#include "huge_pages.h"

#include <string.h>

/* The program may set it, as with jemalloc; the name is the libc's side of ours. Visible, so that a
 * program that refers to it and this library mean the same variable. */
#if MW_EXPORT_LIBC || MW_HAS_PREFIX
#define message_of_program PREFIXED(malloc_message)
extern void (*message_of_program)(void *context, const char *text);
__attribute__((visibility("default"))) void (*message_of_program)(void *context, const char *text);
#else
static void (*message_of_program)(void *context, const char *text);
#endif

/* --- Pieces ----------------------------------------------------------------------------------- */

/* Small pieces are put together, so that the target is called seldom. */
struct pieces {
    struct stats_target target;
    size_t used;
    char text[2048];
};

static void pieces_flush(struct pieces *pieces)
{
    if (pieces->used != 0) {
        pieces->text[pieces->used] = 0;
        pieces->used = 0;
        pieces->target.write(pieces->target.context, pieces->text);
    }
}

static void pieces_write(void *context, const char *text, size_t size)
{
    struct pieces *pieces = context;
    if (pieces->used + size >= sizeof pieces->text) {
        pieces_flush(pieces);
    }
    check(size < sizeof pieces->text);
    memcpy(pieces->text + pieces->used, text, size);
    pieces->used += size;
}

static void write_to_standard_error(void *context, const char *text)
{
    (void)context;
    os_write(2, text, strlen(text));
}

/* --- The text --------------------------------------------------------------------------------- */

/* The lines, the tables and the widths of their columns are those of jemalloc 5.3. sink_print puts text to the left of a
 * width, and numbers to the right. Between two numbers there is a blank, however long they are. */

/* What the columns of a rate say. Of less than a second: all there was. */
static uint64_t per_second(uint64_t count, uint64_t uptime_ns)
{
    uint64_t seconds = uptime_ns / (1000 * 1000 * 1000);
    return seconds != 0 ? count / seconds : count;
}

/* A line where sizes were left out of a table. */
static void print_gap(struct sink *sink, bool *is_in_gap)
{
    if (*is_in_gap) {
        sink_print(sink, "%21s---\n", "");
    }
    *is_in_gap = false;
}

static void print_general(struct sink *sink)
{
    sink_print(sink, "Version: \"%s\"\n", JEMALLOC_VERSION);
    stats_write_settings(sink);
    sink_print(sink, "Arenas: %u\n", arena_numbers(thread_arenas()));
    sink_print(sink, "Quantum size: %u\nPage size: %zu\n", class_size(1), os_page_size);
    sink_print(sink, "Hugepage size: %zu\n", REGION_ALIGNMENT);
    sink_print(sink, "Maximum thread-cached size class: %zu\n", thread_cached_most());
    sink_print(sink, "Number of bin size classes: %u\n", STATS_BINS);
    sink_print(sink, "Number of thread-cache bin size classes: %u\n", STATS_BINS);
    sink_print(sink, "Number of large size classes: %u\n", STATS_LEXTENTS);
}

static void print_totals(struct sink *sink, const struct stats *stats)
{
    struct stats_words words = stats_words_of(stats, &stats->all);
    sink_print(sink,
               "Allocated: %lu, active: %lu, metadata: %lu (n_thp %lu, edata %lu, rtree %lu), "
               "resident: %lu, mapped: %lu, retained: %lu\n",
               words.small_allocated + words.large_allocated, words.active, words.base,
               words.huge_pages, words.descriptors, words.page_map, words.resident, words.mapped,
               words.retained);
    sink_print(sink, "Count of realloc(non-null-ptr, 0) calls: %zu\n", zero_reallocs());
    sink_print(sink, "Background threads: %d, num_runs: %lu, run_interval: %lu ns\n",
               atomic_get(&purge_thread.is_started), atomic_get(&purge_thread.runs),
               purge_thread_interval_ns());
    /* Mallow's own */
    sink_print(sink, "Huge pages: %lu, asked for: %lu\nMappings: %lu\n", stats->process.huge_pages,
               stats->all.figures.huge_page_bytes, stats->process.mappings);
}

/* --- Locks */

#define LOCK_TITLES                                                            \
    "      n_lock_ops (#/sec)       n_waiting (#/sec)      n_spin_acq (#/sec)" \
    "  n_owner_switch (#/sec)   total_wait_ns   (#/sec)     max_wait_ns  max_n_thds\n"

/* The end of a line. */
static void print_lock(struct sink *sink, const struct stats_lock *lock, uint64_t uptime)
{
    const uint64_t counts[] = {lock->operations, lock->waits, lock->spins, lock->owner_changes};
    for (size_t i = 0; i < array_count(counts); i++) {
        sink_print(sink, " %15lu %7lu", counts[i], per_second(counts[i], uptime));
    }
    sink_print(sink, " %15lu %9lu %15lu %11lu\n", lock->wait_time,
               per_second(lock->wait_time, uptime), lock->wait_time_most, lock->queue_most);
}

/* Those of an arena; of the process if that is NULL. */
static void print_locks(struct sink *sink, const struct stats *stats,
                        const struct stats_arena *arena)
{
    const char *words = arena != NULL ? WORDS_LOCK : WORDS_MUTEX;
    uint64_t uptime = arena != NULL ? arena->figures.uptime : stats->all.figures.uptime;
    char name[32];
    sink_print(sink, "%21s" LOCK_TITLES, "");
    long i = 0;
    for (struct word at = word_at(words, 0); at.start != NULL; at = word_at(words, ++i)) {
        sink_print(sink, "%21s", word_text(at, name, sizeof name));
        print_lock(sink,
                   arena != NULL ? stats_arena_mutex(stats, arena, (size_t)i)
                                 : stats_global_mutex(stats, (size_t)i),
                   uptime);
    }
}

/* --- Tables of sizes */

static void print_util(struct sink *sink, uint64_t used, uint64_t all)
{
    if (used >= all) {
        sink_print(sink, "      1");
        return;
    }
    uint64_t util = used * 1000 / all;
    sink_print(sink, "  0.%c%c%c", (char)('0' + util / 100), (char)('0' + util / 10 % 10),
               (char)('0' + util % 10));
}

static void print_bin(struct sink *sink, unsigned bin, const struct stats_class *of,
                      uint64_t uptime)
{
    unsigned class = stats_bin_class(bin);
    sink_print(sink, "%20lu %3u %13lu", of->size, bin, of->slots_out * of->size);
    sink_print(sink, " %13lu %7lu %13lu %7lu %14lu %9lu", stats_bin_nmalloc(of),
               per_second(stats_bin_nmalloc(of), uptime), of->frees, per_second(of->frees, uptime),
               of->allocations, per_second(of->allocations, uptime));
    sink_print(sink, " %8u %12lu %12lu %14lu %4lu %3zu", 1u, of->slots_out, stats_bin_slabs(of),
               stats_bin_nonfull_slabs(of), stats_bin_slots(class),
               stats_bin_slab_size(class) >> os_page_shift);
    print_util(sink, of->slots_out, of->slots);
    sink_print(sink, " %12lu %7lu %12lu %7lu %12lu %12u %7u", of->fills,
               per_second(of->fills, uptime), of->flushes, per_second(of->flushes, uptime),
               of->slabs_made, 0u, 0u);
}

static void print_bins(struct sink *sink, const struct stats_arena *arena, bool has_locks)
{
    uint64_t uptime = arena->figures.uptime;
    bool is_in_gap = false;
    sink_print(sink, "bins:           size ind     allocated       nmalloc (#/sec)       ndalloc "
                     "(#/sec)      nrequests   (#/sec)  nshards      curregs     curslabs  "
                     "nonfull_slabs regs pgs   util       nfills (#/sec)     nflushes (#/sec)"
                     "       nslabs     nreslabs (#/sec)");
    sink_print(sink, has_locks ? LOCK_TITLES : "\n");
    for (unsigned bin = 0; bin < STATS_BINS; bin++) {
        const struct stats_class *of = &arena->classes[stats_bin_class(bin)];
        if (of->slabs == 0 && of->allocations == 0) {
            is_in_gap = true;
            continue;
        }
        print_gap(sink, &is_in_gap);
        print_bin(sink, bin, of, uptime);
        if (has_locks) {
            print_lock(sink, stats_bin_mutex(arena, bin), uptime);
        } else {
            sink_print(sink, "\n");
        }
    }
    print_gap(sink, &is_in_gap);
}

static void print_large(struct sink *sink, const struct stats_arena *arena)
{
    uint64_t uptime = arena->figures.uptime;
    bool is_in_gap = false;
    sink_print(sink, "large:          size ind    allocated      nmalloc (#/sec)      ndalloc "
                     "(#/sec)    nrequests (#/sec)  curlextents\n");
    for (unsigned lextent = 0; lextent < STATS_LEXTENTS; lextent++) {
        const struct stats_large whole = stats_lextent(arena, lextent), *of = &whole;
        if (of->allocations == 0 && of->blocks == 0) {
            is_in_gap = true;
            continue;
        }
        uint64_t given = per_second(of->allocations, uptime);
        print_gap(sink, &is_in_gap);
        sink_print(sink, "%20lu %3u %12lu %12lu %7lu %12lu %7lu %12lu %7lu %12lu\n", of->size,
                   STATS_BINS + lextent, of->blocks * of->size, of->allocations, given, of->frees,
                   per_second(of->frees, uptime), of->allocations, given, of->blocks);
    }
    print_gap(sink, &is_in_gap);
}

static void print_extents(struct sink *sink, const struct stats_arena *arena)
{
    bool is_in_gap = false;
    sink_print(sink, "extents:        size ind       ndirty        dirty       nmuzzy        muzzy"
                     "    nretained     retained       ntotal        total\n");
    for (unsigned bin = 0; bin < EXTENT_BINS; bin++) {
        const struct stats_extents *of = &arena->extents[bin];
        uint64_t count = of->dirty + of->muzzy + of->retained;
        if (count == 0) {
            is_in_gap = true;
            continue;
        }
        print_gap(sink, &is_in_gap);
        sink_print(sink, "%20lu %3u %12lu %12lu %12lu %12lu %12lu %12lu %12lu %12lu\n",
                   of->pages << os_page_shift, bin, of->dirty, of->dirty_bytes, of->muzzy,
                   of->muzzy_bytes, of->retained, of->retained_bytes, count,
                   of->dirty_bytes + of->muzzy_bytes + of->retained_bytes);
    }
    print_gap(sink, &is_in_gap);
}

/* --- Arenas */

/* `counts`: pages there are, sweeps, calls of the kernel, pages taken. */
static void print_decay(struct sink *sink, const char *name, long ms, const uint64_t *counts)
{
    if (ms < 0) {
        sink_print(sink, "%9s   N/A", name);
    } else {
        sink_print(sink, "%9s %5ld", name, ms);
    }
    sink_print(sink, " %12lu %12lu %12lu %12lu\n", counts[0], counts[1], counts[2], counts[3]);
}

static void print_decays(struct sink *sink, const struct stats *stats,
                         const struct stats_arena *arena, const struct stats_words *words)
{
    const struct stats_arena_figures *of = &arena->figures;
    const uint64_t dirty[] = {words->dirty >> os_page_shift, of->dirty_purges,
                              of->dirty_purge_calls, of->dirty_pages_purged};
    const uint64_t muzzy[] = {words->muzzy >> os_page_shift, of->muzzy_purges,
                              of->muzzy_purge_calls, of->muzzy_pages_purged};
    sink_print(sink, "decaying:  time       npages       sweeps     madvises       purged\n");
    print_decay(sink, "   dirty:", stats_decay_ms(stats, arena, true), dirty);
    print_decay(sink, "   muzzy:", stats_decay_ms(stats, arena, false), muzzy);
}

#define SUMS 6u

static void print_sum(struct sink *sink, const char *name, const uint64_t *sums, uint64_t uptime)
{
    sink_print(sink, "%21s %15lu", name, sums[0]);
    for (unsigned i = 1; i < SUMS; i++) {
        sink_print(sink, " %15lu %9lu", sums[i], per_second(sums[i], uptime));
    }
    sink_print(sink, "\n");
}

static void print_sums(struct sink *sink, const struct stats_words *words, uint64_t uptime)
{
    const uint64_t small[SUMS] = {words->small_allocated, words->small_nmalloc,
                                  words->small_ndalloc,   words->small_nrequests,
                                  words->nfills,          words->nflushes};
    const uint64_t large[SUMS] = {words->large_allocated,
                                  words->large_nmalloc,
                                  words->large_ndalloc,
                                  words->large_nmalloc,
                                  0,
                                  0};
    uint64_t total[SUMS];
    for (unsigned i = 0; i < SUMS; i++) {
        total[i] = small[i] + large[i];
    }
    sink_print(sink,
               "%21s       allocated         nmalloc   (#/sec)         ndalloc   (#/sec)"
               "       nrequests   (#/sec)           nfill   (#/sec)          nflush   "
               "(#/sec)\n",
               "");
    print_sum(sink, "small:", small, uptime);
    print_sum(sink, "large:", large, uptime);
    print_sum(sink, "total:", total, uptime);
}

/* What there is nothing of here is 0. */
static void print_bytes(struct sink *sink, const struct stats_words *words,
                        const struct stats_arena_figures *of)
{
    sink_print(sink, "%21s %15lu\n", "active:", words->active);
    sink_print(sink, "%21s %15lu\n", "mapped:", words->mapped);
    sink_print(sink, "%21s %15lu\n", "retained:", words->retained);
    sink_print(sink, "%21s %15lu\n", "base:", words->base);
    sink_print(sink, "%21s %15u\n", "internal:", 0u);
    sink_print(sink, "%21s %15lu\n", "metadata_edata:", words->descriptors);
    sink_print(sink, "%21s %15lu\n", "metadata_rtree:", words->page_map);
    sink_print(sink, "%21s %15lu\n", "metadata_thp:", words->huge_pages);
    sink_print(sink, "%21s %15lu\n", "tcache_bytes:", of->cached_bytes);
    sink_print(sink, "%21s %15u\n", "tcache_stashed_bytes:", 0u);
    sink_print(sink, "%21s %15lu\n", "resident:", words->resident);
    sink_print(sink, "%21s %15u\n", "abandoned_vm:", 0u);
    sink_print(sink, "%21s %15lu\n", "extent_avail:", of->unused_descriptors);
}

static void print_name(struct sink *sink, size_t number)
{
    char name[ARENA_NAME_SIZE] = "";
    struct arena *arena = arena_numbered((unsigned)number);
    if (arena != NULL) {
        arena_get_name(arena, name);
    }
    sink_print(sink, "name: \"%s\"\n", name);
}

static void print_arena(struct sink *sink, const struct stats *stats,
                        const struct stats_arena *arena, const struct stats_parts *parts)
{
    struct stats_words words = stats_words_of(stats, arena);
    bool is_merged = arena == &stats->all;
    if (!is_merged) {
        print_name(sink, (size_t)(arena - stats->arenas));
    }
    sink_print(sink, "assigned threads: %lu\nuptime: %lu\n", arena->figures.threads,
               arena->figures.uptime);
    sink_print(sink, "dss allocation precedence: \"%s\"\n", is_merged ? "N/A" : "disabled");
    print_decays(sink, stats, arena, &words);
    print_sums(sink, &words, arena->figures.uptime);
    sink_print(sink, "\n");
    print_bytes(sink, &words, &arena->figures);
    if (parts->mutexes) {
        print_locks(sink, stats, arena);
    }
    if (parts->bins) {
        print_bins(sink, arena, parts->mutexes);
    }
    if (parts->large) {
        print_large(sink, arena);
    }
    if (parts->extents) {
        print_extents(sink, arena);
    }
}

static void print_text(struct sink *sink, const struct stats *stats,
                       const struct stats_parts *parts)
{
    sink_print(sink, "___ Begin jemalloc statistics ___\n");
    if (parts->general) {
        print_general(sink);
    }
    print_totals(sink, stats);
    if (parts->mutexes) {
        print_locks(sink, stats, NULL);
    }
    if (parts->merged) {
        sink_print(sink, "Merged arenas stats:\n");
        print_arena(sink, stats, &stats->all, parts);
    }
    for (unsigned i = 0; parts->arenas && i < stats->arena_count; i++) {
        if (stats->arenas[i].is_made) {
            sink_print(sink, "arenas[%u]:\n", i);
            print_arena(sink, stats, &stats->arenas[i], parts);
        }
    }
    sink_print(sink, "--- End jemalloc statistics ---\n");
}

/* --- malloc_stats_print ----------------------------------------------------------------------- */

static bool has_letter(const char *options, char letter)
{
    return options != NULL && strchr(options, letter) != NULL;
}

/* Only of two threads at a time that find no memory. */
#define NOBODY_CAN_READ "no memory to gather statistics in"

static void stats_print_to(struct stats_target target, const char *options)
{
    if (target.write == NULL) {
        target.write = message_of_program != NULL ? message_of_program : write_to_standard_error;
    }
    struct stats_parts parts = {
        .general = !has_letter(options, 'g'),
        .merged = !has_letter(options, 'm'),
        .destroyed = !has_letter(options, 'd'),
        .arenas = !has_letter(options, 'a'),
        .bins = !has_letter(options, 'b'),
        .large = !has_letter(options, 'l'),
        .mutexes = !has_letter(options, 'x'),
        .extents = !has_letter(options, 'e'),
        .hpa = !has_letter(options, 'h'),
    };
    struct stats *stats = stats_open();
    if (stats == NULL) {
        target.write(target.context, has_letter(options, 'J')
                                         ? "{\n\"jemalloc\": {\n\"error\": \"" NOBODY_CAN_READ
                                           "\"\n}\n}\n"
                                         : "mallow: " NOBODY_CAN_READ "\n");
        return;
    }
    kernel_figures(&stats->process);
    struct pieces pieces = {.target = target};
    struct sink sink = {pieces_write, &pieces};
    if (has_letter(options, 'J')) {
        stats_write_json(&sink, stats, &parts);
    } else {
        print_text(&sink, stats, &parts);
    }
    pieces_flush(&pieces);
    stats_close(stats);
}

void mw_malloc_stats_print(void (*write)(void *context, const char *text), void *context,
                           const char *options)
{
    stats_print_to((struct stats_target){write, context}, options);
}
