/* SPDX-License-Identifier: MIT */
#define MW_NO_JEMALLOC_NAMES
#include "../../include/mallow/jemalloc.h"
#include "stats_text.h"

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

/* Words over numbers of the same widths, to the right as numbers are; the list ends with NULL. */
struct title {
    unsigned width;
    const char *word;
};

static void print_titles(struct sink *sink, const struct title *titles)
{
    for (; titles->word != NULL; titles++) {
        for (size_t i = strlen(titles->word); i < titles->width; i++) {
            sink_print(sink, " ");
        }
        sink_print(sink, "%s%s", titles->word, titles[1].word != NULL ? " " : "\n");
    }
}

static void print_general(struct sink *sink)
{
    sink_print(sink, "Version: \"%s\"\n", JEMALLOC_VERSION);
    stats_write_settings(sink);
    sink_print(sink, "Arenas: %u\n", arena_numbers(thread_arenas()));
    sink_print(sink, "Quantum size: %u\nPage size: %zu\n", class_size(1), os_page_size);
    sink_print(sink, "Maximum thread-cached size class: %zu\n", thread_cached_most());
    sink_print(sink, "Number of bin size classes: %u\n", STATS_BINS);
    sink_print(sink, "Number of thread-cache bin size classes: %u\n", STATS_BINS);
    sink_print(sink, "Number of large size classes: %u\n", STATS_LEXTENTS);
    sink_print(sink, "Decay (ms): dirty %ld, muzzy %ld\n", option(OPTION_dirty_decay_ms),
               option(OPTION_muzzy_decay_ms));
}

static void print_totals(struct sink *sink, const struct stats *stats)
{
    struct stats_words words = stats_words_of(stats, &stats->all);
    sink_print(sink,
               "Allocated: %lu, active: %lu, metadata: %lu, resident: %lu, mapped: %lu, "
               "retained: %lu\n",
               words.small_allocated + stats->all.figures.large_bytes, words.active, words.base,
               words.resident, words.mapped, words.retained);
    sink_print(sink, "Huge pages: %lu, asked for: %lu\nMappings: %lu\n", stats->process.huge_pages,
               stats->all.figures.huge_page_bytes, stats->process.mappings);
}

static void print_lock(struct sink *sink, const char *name, const struct stats_lock *lock)
{
    sink_print(sink, "%12s %12lu %10lu %10lu %12lu %14lu %14lu %10lu\n", name, lock->operations,
               lock->waits, lock->spins, lock->owner_changes, lock->wait_time, lock->wait_time_most,
               lock->queue_most);
}

static void print_lock_titles(struct sink *sink)
{
    sink_print(sink, "%12s ", "mutex");
    print_titles(sink, (const struct title[]){{12, "n_lock_ops"},
                                              {10, "n_waiting"},
                                              {10, "n_spin_acq"},
                                              {12, "n_owner_sw"},
                                              {14, "total_wait_ns"},
                                              {14, "max_wait_ns"},
                                              {10, "max_n_thds"},
                                              {0, NULL}});
}

static void print_bins(struct sink *sink, const struct stats_arena *arena)
{
    print_titles(sink, (const struct title[]){{8, "size"},
                                              {12, "allocated"},
                                              {12, "nmalloc"},
                                              {12, "ndalloc"},
                                              {12, "curregs"},
                                              {10, "nfills"},
                                              {10, "nflushes"},
                                              {10, "curslabs"},
                                              {10, "nonfull"},
                                              {12, "remote"},
                                              {6, "util"},
                                              {0, NULL}});
    for (unsigned class = 1; class < CLASSES; class ++) {
        const struct stats_class *of = &arena->classes[class];
        if (of->slabs == 0 && of->allocations == 0) {
            continue;
        }
        uint64_t util = of->slots != 0 ? of->slots_out * 1000 / of->slots : 1000;
        char digits[3] = {(char)('0' + util / 100 % 10), (char)('0' + util / 10 % 10),
                          (char)('0' + util % 10)};
        sink_print(sink, "%8lu %12lu %12lu %12lu %12lu %10lu %10lu %10lu %10lu %12lu %2lu.%c%c%c\n",
                   of->size, of->slots_out * of->size, stats_bin_nmalloc(of), of->frees,
                   of->slots_out, of->fills, of->flushes, of->slabs, of->slabs_nonfull,
                   of->remote_frees, util / 1000, digits[0], digits[1], digits[2]);
    }
}

static void print_large(struct sink *sink, const struct stats_arena *arena)
{
    print_titles(
        sink, (const struct title[]){
                  {12, "large"}, {12, "nmalloc"}, {12, "ndalloc"}, {12, "curlextents"}, {0, NULL}});
    for (unsigned class = 0; class < LARGE_CLASSES; class ++) {
        const struct stats_large *of = &arena->large[class];
        if (of->allocations != 0 || of->blocks != 0) {
            sink_print(sink, "%12lu %12lu %12lu %12lu\n", of->size, of->allocations, of->frees,
                       of->blocks);
        }
    }
}

static void print_extents(struct sink *sink, const struct stats_arena *arena)
{
    print_titles(sink, (const struct title[]){{12, "pages up to"},
                                              {10, "ndirty"},
                                              {14, "dirty"},
                                              {10, "nmuzzy"},
                                              {14, "muzzy"},
                                              {10, "nretained"},
                                              {14, "retained"},
                                              {0, NULL}});
    for (unsigned bin = 0; bin < EXTENT_BINS; bin++) {
        const struct stats_extents *of = &arena->extents[bin];
        if (of->dirty + of->muzzy + of->retained != 0) {
            sink_print(sink, "%12lu %10lu %14lu %10lu %14lu %10lu %14lu\n", of->pages, of->dirty,
                       of->dirty_bytes, of->muzzy, of->muzzy_bytes, of->retained,
                       of->retained_bytes);
        }
    }
}

static void print_purges(struct sink *sink, const struct stats_arena *arena)
{
    const struct stats_arena_figures *of = &arena->figures;
    sink_print(sink, "%8s ", "decaying");
    print_titles(sink,
                 (const struct title[]){
                     {14, "bytes"}, {10, "sweeps"}, {10, "madvises"}, {12, "pages"}, {0, NULL}});
    sink_print(sink, "%8s %14lu %10lu %10lu %12lu\n", "dirty", of->dirty_bytes + of->stacked_bytes,
               of->dirty_purges, of->dirty_purge_calls, of->dirty_pages_purged);
    sink_print(sink, "%8s %14lu %10lu %10lu %12lu\n", "muzzy", of->muzzy_bytes, of->muzzy_purges,
               of->muzzy_purge_calls, of->muzzy_pages_purged);
}

static void print_arena(struct sink *sink, const struct stats *stats,
                        const struct stats_arena *arena, const struct stats_parts *parts)
{
    struct stats_words words = stats_words_of(stats, arena);
    sink_print(sink, "assigned threads: %lu\nuptime: %lu\n", arena->figures.threads,
               arena->figures.uptime);
    print_purges(sink, arena);
    sink_print(sink, "%8s ", "");
    print_titles(
        sink,
        (const struct title[]){
            {14, "allocated"}, {12, "nmalloc"}, {12, "ndalloc"}, {12, "nrequests"}, {0, NULL}});
    sink_print(sink, "%8s %14lu %12lu %12lu %12lu\n", "small", words.small_allocated,
               words.small_nmalloc, words.small_ndalloc, words.small_nrequests);
    sink_print(sink, "%8s %14lu %12lu %12lu %12lu\n", "large", arena->figures.large_bytes,
               words.large_nmalloc, words.large_ndalloc, words.large_nmalloc);
    sink_print(sink,
               "active: %lu\nmapped: %lu\nretained: %lu\nbase: %lu\ntcache_bytes: %lu\n"
               "resident: %lu\nextent_avail: %lu\n",
               words.active, words.mapped, words.retained, words.base, arena->figures.cached_bytes,
               words.resident, arena->figures.unused_descriptors);
    if (parts->mutexes) {
        print_lock_titles(sink);
        for (unsigned i = 0; i < STATS_ARENA_LOCKS; i++) {
            print_lock(sink, stats_arena_lock_names[i], &arena->locks[i]);
        }
    }
    if (parts->bins) {
        print_bins(sink, arena);
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
        print_lock_titles(sink);
        for (unsigned i = 0; i < STATS_PROCESS_LOCKS; i++) {
            print_lock(sink, stats_process_lock_names[i], &stats->locks[i]);
        }
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
