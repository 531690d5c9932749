/* SPDX-License-Identifier: MIT */
#include "stats_json.h"

#include "../settings/options.h"

/* --- jemalloc's words ------------------------------------------------------------------------- */

static bool stats_has_common(const struct stats *stats, const struct stats_arena *arena)
{
    return arena == &stats->all || arena == &stats->arenas[0];
}

static struct stats_words stats_words_of(const struct stats *stats, const struct stats_arena *arena)
{
    const struct stats_arena_figures *figures = &arena->figures;
    struct stats_words words = {
        .active = figures->slab_bytes + figures->large_bytes,
        .dirty = figures->dirty_bytes + figures->stacked_bytes,
        .muzzy = figures->muzzy_bytes,
        .retained = figures->retained_bytes,
        .base = stats_has_common(stats, arena) ? stats->process.metadata : 0,
        .small_allocated = figures->small_bytes,
    };
    words.resident = words.active + words.dirty + words.muzzy + words.base;
    words.mapped = figures->region_bytes + figures->huge_bytes + figures->huge_dirty_bytes +
                   words.base - words.retained;
    for (unsigned class = 1; class < CLASSES; class ++) {
        const struct stats_class *of = &arena->classes[class];
        words.small_nmalloc += stats_bin_nmalloc(of);
        words.small_ndalloc += of->frees;
        words.small_nrequests += of->allocations;
        words.nfills += of->fills;
        words.nflushes += of->flushes;
    }
    for (unsigned class = 0; class < LARGE_CLASSES; class ++) {
        words.large_nmalloc += arena->large[class].allocations;
        words.large_ndalloc += arena->large[class].frees;
    }
    return words;
}

/* --- Writing ---------------------------------------------------------------------------------- */

/* Where in the object we are: whether something stands before at this level. */
struct json {
    struct sink *sink;
    bool is_first;
};

static void json_next(struct json *json, const char *key)
{
    sink_print(json->sink, json->is_first ? "\n" : ",\n");
    json->is_first = false;
    if (key != NULL) {
        sink_print(json->sink, "\"%s\": ", key);
    }
}

/* `key` is NULL in a list. */
static void json_open(struct json *json, const char *key, char bracket)
{
    json_next(json, key);
    sink_print(json->sink, "%c", bracket);
    json->is_first = true;
}

static void json_close(struct json *json, char bracket)
{
    sink_print(json->sink, "\n%c", bracket);
    json->is_first = false;
}

static void json_number(struct json *json, const char *key, uint64_t value)
{
    json_next(json, key);
    sink_print(json->sink, "%lu", value);
}

static void json_signed(struct json *json, const char *key, long value)
{
    json_next(json, key);
    sink_print(json->sink, "%ld", value);
}

static void json_bool(struct json *json, const char *key, bool value)
{
    json_next(json, key);
    sink_print(json->sink, value ? "true" : "false");
}

/* The texts are ours: nothing in them has to be escaped. */
static void json_string(struct json *json, const char *key, const char *value)
{
    json_next(json, key);
    sink_print(json->sink, "\"%s\"", value);
}

static void json_zeros(struct json *json, const char *const *keys, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        json_number(json, keys[i], 0);
    }
}

/* --- What does not change --------------------------------------------------------------------- */

static void write_config(struct json *json)
{
    json_open(json, "config", '{');
    json_bool(json, "cache_oblivious", false);
    json_bool(json, "debug", MW_CHECK_LEVEL > 0);
    json_bool(json, "fill", true);
    json_bool(json, "lazy_lock", false);
    json_string(json, "malloc_conf", "");
    json_bool(json, "opt_safety_checks", MW_SLOT_BITMAP);
    json_bool(json, "prof", false);
    json_bool(json, "prof_libgcc", false);
    json_bool(json, "prof_libunwind", false);
    json_bool(json, "stats", true);
    json_bool(json, "utrace", false);
    json_bool(json, "xmalloc", false);
    json_close(json, '}');
}

static void write_options(struct json *json)
{
    json_open(json, "opt", '{');
    json_bool(json, "abort_conf", option(OPTION_abort_conf) != 0);
    json_bool(json, "confirm_conf", option(OPTION_confirm_conf) != 0);
    json_string(json, "dss", "disabled");
    json_signed(json, "narenas", option(OPTION_arenas));
    json_bool(json, "background_thread", option(OPTION_purge_thread) != 0);
    json_signed(json, "dirty_decay_ms", option(OPTION_dirty_decay_ms));
    json_signed(json, "muzzy_decay_ms", option(OPTION_muzzy_decay_ms));
    static const char *const junk[] = {"false", "true", "alloc", "free"};
    json_string(json, "junk", junk[option(OPTION_junk)]);
    json_bool(json, "zero", option(OPTION_zero) != 0);
    json_bool(json, "tcache", true);
    json_number(json, "tcache_max", SLOT_MAX);
    json_string(json, "thp", "default");
    json_bool(json, "retain", true);
    json_bool(json, "stats_print", option(OPTION_stats_print) != 0);
    json_close(json, '}');
}

static void write_sizes(struct json *json, const struct stats *stats,
                        const struct stats_parts *parts)
{
    json_open(json, "arenas", '{');
    json_number(json, "narenas", stats->arena_count);
    json_signed(json, "dirty_decay_ms", option(OPTION_dirty_decay_ms));
    json_signed(json, "muzzy_decay_ms", option(OPTION_muzzy_decay_ms));
    json_number(json, "quantum", class_size(1));
    json_number(json, "page", os_page_size);
    json_number(json, "hugepage", REGION_ALIGNMENT);
    json_number(json, "tcache_max", SLOT_MAX);
    json_number(json, "nbins", STATS_BINS);
    json_number(json, "nhbins", STATS_BINS);
    if (parts->bins) {
        json_open(json, "bin", '[');
        for (unsigned bin = 0; bin < STATS_BINS; bin++) {
            unsigned class = stats_bin_class(bin);
            json_open(json, NULL, '{');
            json_number(json, "size", class_size(class));
            json_number(json, "nregs", stats_bin_slots(class));
            json_number(json, "slab_size", stats_bin_slab_size(class));
            json_number(json, "nshards", 1);
            json_close(json, '}');
        }
        json_close(json, ']');
    }
    json_number(json, "nlextents", LARGE_CLASSES - STATS_FIRST_LARGE);
    if (parts->large) {
        json_open(json, "lextent", '[');
        for (unsigned class = STATS_FIRST_LARGE; class < LARGE_CLASSES; class ++) {
            json_open(json, NULL, '{');
            json_number(json, "size", stats->all.large[class].size);
            json_close(json, '}');
        }
        json_close(json, ']');
    }
    json_close(json, '}');
}

/* --- Mutexes ---------------------------------------------------------------------------------- */

/* A lock under the name of the mutex that does in jemalloc what it does here. */
struct mutex {
    const char *name;
    const struct stats_lock *lock; /* NULL: there is none */
};

static void write_mutex(struct json *json, const char *name, const struct stats_lock *lock)
{
    static const struct stats_lock none;
    lock = lock != NULL ? lock : &none;
    json_open(json, name, '{');
    json_number(json, "num_ops", lock->operations);
    json_number(json, "num_wait", lock->waits);
    json_number(json, "num_spin_acq", lock->spins);
    json_number(json, "num_owner_switch", lock->owner_changes);
    json_number(json, "total_wait_time", lock->wait_time);
    json_number(json, "max_wait_time", lock->wait_time_most);
    json_number(json, "max_num_thds", lock->queue_most);
    json_close(json, '}');
}

static void write_mutexes(struct json *json, const struct mutex *mutexes, size_t count)
{
    json_open(json, "mutexes", '{');
    for (size_t i = 0; i < count; i++) {
        write_mutex(json, mutexes[i].name, mutexes[i].lock);
    }
    json_close(json, '}');
}

static void write_global_mutexes(struct json *json, const struct stats *stats)
{
    struct mutex mutexes[] = {
        {"background_thread", NULL},
        {"max_per_bg_thd", NULL},
        {"ctl", &stats->locks[STATS_LOCK_PROCESS]},
        {"prof", NULL},
        {"prof_thds_data", NULL},
        {"prof_dump", NULL},
        {"prof_recent_alloc", NULL},
        {"prof_recent_dump", NULL},
        {"prof_stats", NULL},
    };
    write_mutexes(json, mutexes, array_count(mutexes));
}

/* One lock guards all free extents of an arena, and one the list of all heaps. */
static void write_arena_mutexes(struct json *json, const struct stats *stats,
                                const struct stats_arena *arena)
{
    bool has_common = stats_has_common(stats, arena);
    struct mutex mutexes[] = {
        {"large", NULL},
        {"extent_avail", NULL},
        {"extents_dirty", &arena->locks[STATS_LOCK_ARENA]},
        {"extents_muzzy", NULL},
        {"extents_retained", NULL},
        {"extents_pinned", NULL},
        {"decay_dirty", &arena->locks[STATS_LOCK_PURGE]},
        {"decay_muzzy", NULL},
        {"base", has_common ? &stats->locks[STATS_LOCK_META] : NULL},
        {"tcache_list", has_common ? &stats->locks[STATS_LOCK_HEAPS] : NULL},
        {"hpa_shard", NULL},
        {"hpa_shard_grow", NULL},
        {"hpa_sec", NULL},
    };
    write_mutexes(json, mutexes, array_count(mutexes));
}

/* --- Arenas ----------------------------------------------------------------------------------- */

static void write_bins(struct json *json, const struct stats_arena *arena, bool has_mutexes)
{
    json_open(json, "bins", '[');
    for (unsigned bin = 0; bin < STATS_BINS; bin++) {
        const struct stats_class *of = &arena->classes[stats_bin_class(bin)];
        json_open(json, NULL, '{');
        json_number(json, "nmalloc", stats_bin_nmalloc(of));
        json_number(json, "ndalloc", of->frees);
        json_number(json, "curregs", of->slots_out);
        json_number(json, "nrequests", of->allocations);
        json_number(json, "nfills", of->fills);
        json_number(json, "nflushes", of->flushes);
        json_number(json, "nreslabs", 0);
        json_number(json, "curslabs", stats_bin_slabs(of));
        json_number(json, "nonfull_slabs", stats_bin_nonfull_slabs(of));
        if (has_mutexes) {
            /* All bins of an arena have one lock: it stands with the first. */
            write_mutex(json, "mutex", bin == 0 ? &arena->locks[STATS_LOCK_POOL] : NULL);
        }
        json_close(json, '}');
    }
    json_close(json, ']');
}

static void write_lextents(struct json *json, const struct stats_arena *arena)
{
    json_open(json, "lextents", '[');
    for (unsigned class = STATS_FIRST_LARGE; class < LARGE_CLASSES; class ++) {
        json_open(json, NULL, '{');
        json_number(json, "curlextents", arena->large[class].blocks);
        json_close(json, '}');
    }
    json_close(json, ']');
}

static void write_extents(struct json *json, const struct stats_arena *arena)
{
    json_open(json, "extents", '[');
    for (unsigned bin = 0; bin < EXTENT_BINS; bin++) {
        const struct stats_extents *of = &arena->extents[bin];
        json_open(json, NULL, '{');
        json_number(json, "ndirty", of->dirty);
        json_number(json, "nmuzzy", of->muzzy);
        json_number(json, "nretained", of->retained);
        json_number(json, "npinned", 0);
        json_number(json, "dirty_bytes", of->dirty_bytes);
        json_number(json, "muzzy_bytes", of->muzzy_bytes);
        json_number(json, "retained_bytes", of->retained_bytes);
        json_number(json, "pinned_bytes", 0);
        json_close(json, '}');
    }
    json_close(json, ']');
}

static const char *const hpa_slab_keys[] = {
    "npageslabs_nonhuge", "nactive_nonhuge", "ndirty_nonhuge", "nretained_nonhuge",
    "npageslabs_huge",    "nactive_huge",    "ndirty_huge"};

/* There is no such layer here. */
static void write_hpa(struct json *json)
{
    static const char *const counters[] = {"npurge_passes", "npurges", "nhugifies", "ndehugifies"};
    json_open(json, "hpa_shard", '{');
    json_zeros(json, counters, array_count(counters));
    json_open(json, "full_slabs", '{');
    json_zeros(json, hpa_slab_keys, array_count(hpa_slab_keys));
    json_close(json, '}');
    json_open(json, "empty_slabs", '{');
    json_zeros(json, hpa_slab_keys, array_count(hpa_slab_keys));
    json_close(json, '}');
    json_open(json, "nonfull_slabs", '[');
    json_close(json, ']');
    json_close(json, '}');
}

static void write_traffic(struct json *json, const struct stats_arena *arena,
                          const struct stats_words *words)
{
    json_open(json, "small", '{');
    json_number(json, "allocated", words->small_allocated);
    json_number(json, "nmalloc", words->small_nmalloc);
    json_number(json, "ndalloc", words->small_ndalloc);
    json_number(json, "nrequests", words->small_nrequests);
    json_number(json, "nfills", words->nfills);
    json_number(json, "nflushes", words->nflushes);
    json_close(json, '}');
    json_open(json, "large", '{');
    json_number(json, "allocated", arena->figures.large_bytes);
    json_number(json, "nmalloc", words->large_nmalloc);
    json_number(json, "ndalloc", words->large_ndalloc);
    json_number(json, "nrequests", words->large_nmalloc);
    json_number(json, "nfills", 0);
    json_number(json, "nflushes", 0);
    json_close(json, '}');
}

static void write_purges(struct json *json, const struct stats_arena_figures *figures)
{
    json_number(json, "dirty_npurge", figures->dirty_purges);
    json_number(json, "dirty_nmadvise", figures->dirty_purge_calls);
    json_number(json, "dirty_purged", figures->dirty_pages_purged);
    json_number(json, "muzzy_npurge", figures->muzzy_purges);
    json_number(json, "muzzy_nmadvise", figures->muzzy_purge_calls);
    json_number(json, "muzzy_purged", figures->muzzy_pages_purged);
}

static void write_arena(struct json *json, const char *key, const struct stats *stats,
                        const struct stats_arena *arena, const struct stats_parts *parts)
{
    bool is_merged = arena == &stats->all;
    struct stats_words words = stats_words_of(stats, arena);
    json_open(json, key, '{');
    if (!is_merged) {
        json_string(json, "name", "auto");
    }
    json_number(json, "nthreads", arena->figures.threads);
    json_number(json, "uptime_ns", arena->figures.uptime);
    json_string(json, "dss", "disabled");
    json_signed(json, "dirty_decay_ms", is_merged ? -1 : option(OPTION_dirty_decay_ms));
    json_signed(json, "muzzy_decay_ms", is_merged ? -1 : option(OPTION_muzzy_decay_ms));
    json_number(json, "pactive", words.active >> os_page_shift);
    json_number(json, "pdirty", words.dirty >> os_page_shift);
    json_number(json, "pmuzzy", words.muzzy >> os_page_shift);
    write_purges(json, &arena->figures);
    write_traffic(json, arena, &words);
    json_number(json, "mapped", words.mapped);
    json_number(json, "retained", words.retained);
    json_number(json, "base", words.base);
    json_number(json, "internal", 0);
    json_number(json, "metadata_thp", 0);
    json_number(json, "tcache_bytes", arena->figures.cached_bytes);
    json_number(json, "tcache_stashed_bytes", 0);
    json_number(json, "resident", words.resident);
    json_number(json, "abandoned_vm", 0);
    json_number(json, "extent_avail", arena->figures.unused_descriptors);
    if (parts->mutexes) {
        write_arena_mutexes(json, stats, arena);
    }
    if (parts->bins) {
        write_bins(json, arena, parts->mutexes);
    }
    if (parts->large) {
        write_lextents(json, arena);
    }
    if (parts->extents) {
        write_extents(json, arena);
    }
    if (parts->hpa) {
        write_hpa(json);
    }
    json_close(json, '}');
}

static void write_arenas(struct json *json, const struct stats *stats,
                         const struct stats_parts *parts)
{
    json_open(json, "stats.arenas", '{');
    if (parts->merged) {
        write_arena(json, "merged", stats, &stats->all, parts);
    }
    for (unsigned i = 0; parts->arenas && i < stats->arena_count; i++) {
        char name[4] = {(char)('0' + i % 10)};
        if (i >= 10) {
            name[0] = (char)('0' + i / 10);
            name[1] = (char)('0' + i % 10);
        }
        write_arena(json, name, stats, &stats->arenas[i], parts);
    }
    json_close(json, '}');
}

static void write_totals(struct json *json, const struct stats *stats,
                         const struct stats_parts *parts)
{
    struct stats_words words = stats_words_of(stats, &stats->all);
    json_open(json, "stats", '{');
    json_number(json, "allocated", words.small_allocated + stats->all.figures.large_bytes);
    json_number(json, "active", words.active);
    json_number(json, "metadata", words.base);
    json_number(json, "metadata_thp", 0);
    json_number(json, "resident", words.resident);
    json_number(json, "mapped", words.mapped);
    json_number(json, "retained", words.retained);
    json_number(json, "zero_reallocs", 0);
    json_open(json, "background_thread", '{');
    json_number(json, "num_threads", atomic_get(&process.purge_thread_started));
    json_number(json, "num_runs", 0);
    json_number(json, "run_interval", 0);
    json_close(json, '}');
    if (parts->mutexes) {
        write_global_mutexes(json, stats);
    }
    json_close(json, '}');
}

static void stats_write_json(struct sink *sink, const struct stats *stats,
                             const struct stats_parts *parts)
{
    struct json json = {sink, true};
    sink_print(sink, "{\n\"jemalloc\": {");
    if (parts->general) {
        json_string(&json, "version", mw_version());
        write_config(&json);
        write_options(&json);
        write_sizes(&json, stats, parts);
    }
    write_totals(&json, stats, parts);
    if (parts->merged || parts->arenas) {
        write_arenas(&json, stats, parts);
    }
    sink_print(sink, "\n}\n}\n");
}
