/* SPDX-License-Identifier: MIT */
#define MW_NO_JEMALLOC_NAMES
#include "../../include/mallow/jemalloc.h"
#include "stats_json.h"

#include "../api/realloc.h"
#include "../settings/conf.h"
#include "../settings/load.h"
#include "huge_pages.h"

/* --- jemalloc's words ------------------------------------------------------------------------- */

static bool stats_has_common(const struct stats *stats, const struct stats_arena *arena)
{
    return arena == &stats->all || arena == &stats->arenas[0];
}

static struct stats_words stats_words_of(const struct stats *stats, const struct stats_arena *arena)
{
    const struct stats_arena_figures *figures = &arena->figures;
    const struct stats_process *common = &stats->process;
    bool has_common = stats_has_common(stats, arena);
    struct stats_words words = {
        .active = figures->slab_bytes + figures->large_bytes,
        .dirty = figures->dirty_bytes + figures->stacked_bytes,
        .muzzy = figures->muzzy_bytes,
        .retained = figures->retained_bytes,
        .base = has_common ? common->metadata : 0,
        .descriptors = has_common ? common->metadata_descriptors : 0,
        .page_map = has_common ? common->metadata_page_map : 0,
        .huge_pages = has_common ? common->metadata_huge_pages : 0,
        .small_allocated = figures->small_bytes,
        .large_allocated = figures->large_bytes,
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

static struct stats_large stats_lextent(const struct stats_arena *arena, unsigned lextent)
{
    struct stats_large whole = arena->large[STATS_FIRST_LARGE + lextent];
    for (unsigned class = 0; lextent == 0 && class < STATS_FIRST_LARGE; class ++) {
        const struct stats_large *smaller = &arena->large[class];
        whole.allocations += smaller->allocations;
        whole.frees += smaller->frees;
        whole.blocks += smaller->blocks;
    }
    return whole;
}

static long stats_decay_ms(const struct stats *stats, const struct stats_arena *arena,
                           bool is_dirty)
{
    if (arena == &stats->all) {
        return -1;
    }
    struct arena *at = arena_numbered((unsigned)(arena - stats->arenas));
    if (at == NULL) {
        return -1; /* it has been destroyed since */
    }
    return is_dirty ? arena_dirty_decay_ms(at) : arena_muzzy_decay_ms(at);
}

static const struct stats_lock no_lock;

static const struct stats_lock *stats_global_mutex(const struct stats *stats, size_t index)
{
    bool is_ctl = index == 2;
    return is_ctl ? &stats->locks[STATS_LOCK_PROCESS]
           : index < 100 && word_at(WORDS_MUTEX, (long)index).start != NULL ? &no_lock
                                                                            : NULL;
}

/* One lock guards all free extents of an arena, and one the list of all heaps. */
static const struct stats_lock *stats_arena_mutex(const struct stats *stats,
                                                  const struct stats_arena *arena, size_t index)
{
    if (index >= 100) {
        return NULL;
    }
    struct word name = word_at(WORDS_LOCK, (long)index);
    bool has_common = stats_has_common(stats, arena);
    return name.start == NULL                           ? NULL
           : word_is(name, "extents_dirty")             ? &arena->locks[STATS_LOCK_ARENA]
           : word_is(name, "decay_dirty")               ? &arena->locks[STATS_LOCK_PURGE]
           : word_is(name, "base") && has_common        ? &stats->locks[STATS_LOCK_META]
           : word_is(name, "tcache_list") && has_common ? &stats->locks[STATS_LOCK_HEAPS]
                                                        : &no_lock;
}

/* All bins of an arena have one lock: it stands with the first. */
static const struct stats_lock *stats_bin_mutex(const struct stats_arena *arena, size_t bin)
{
    return bin == 0 ? &arena->locks[STATS_LOCK_POOL] : bin < STATS_BINS ? &no_lock : NULL;
}

/* --- Writing ---------------------------------------------------------------------------------- */

/* Where in the object we are: whether something stands before at this level. With a prefix it is lines of text that
 * are written, one a value. */
struct json {
    struct sink *sink;
    bool is_first;
    const char *prefix;
};

static void json_next(struct json *json, const char *key)
{
    bool is_text = json->prefix != NULL;
    sink_print(json->sink, is_text || json->is_first ? "\n" : ",\n");
    json->is_first = false;
    if (key != NULL && is_text) {
        sink_print(json->sink, "  %s%s: ", json->prefix, key);
    } else if (key != NULL) {
        sink_print(json->sink, "\"%s\": ", key);
    }
}

static void json_open_value(struct json *json, char bracket)
{
    sink_print(json->sink, "%c", bracket);
    json->is_first = true;
}

/* `key` is NULL in a list. */
static void json_open(struct json *json, const char *key, char bracket)
{
    json_next(json, key);
    json_open_value(json, bracket);
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

/* A text of the program's: what would end the string is not shown as it is. */
static void json_foreign(struct json *json, const char *key, const char *value)
{
    json_next(json, key);
    sink_print(json->sink, "\"");
    for (; *value != 0; value++) {
        bool is_plain = *value >= ' ' && *value < 0x7f && *value != '"' && *value != '\\';
        sink_print(json->sink, "%c", is_plain ? *value : '?');
    }
    sink_print(json->sink, "\"");
}

/* A number in parts of CONF_ONE as a text with at least one digit behind the point: "0.25"; "-1" stays that. */
static void json_part(struct json *json, const char *key, long value)
{
    json_next(json, key);
    if (value < 0) {
        sink_print(json->sink, "\"-1\"");
        return;
    }
    unsigned long rest = (unsigned long)value % CONF_ONE;
    sink_print(json->sink, "\"%lu.", (unsigned long)value / CONF_ONE);
    for (int digits = 0; digits == 0 || (rest != 0 && digits < 6); digits++) {
        rest *= 10;
        sink_print(json->sink, "%lu", rest / CONF_ONE);
        rest %= CONF_ONE;
    }
    sink_print(json->sink, "\"");
}

/* A key that is one of several words. */
static void json_next_word(struct json *json, struct word key)
{
    char buffer[32];
    json_next(json, word_text(key, buffer, sizeof buffer));
}

static void json_zeros(struct json *json, const char *words)
{
    long i = 0;
    for (struct word key = word_at(words, 0); key.start != NULL; key = word_at(words, ++i)) {
        json_next_word(json, key);
        sink_print(json->sink, "0");
    }
}

/* By the types of stats_json.def. */
#define JSON_UNSIGNED json_number
#define JSON_SIZE json_number
#define JSON_NUMBER64 json_number
#define JSON_FIGURE(name, type, value) JSON_##type(json, #name, value);

/* --- What does not change --------------------------------------------------------------------- */

static void write_config(struct json *json)
{
    json_bool(json, "cache_oblivious", false);
    json_bool(json, "debug", MW_CHECK_LEVEL > 0);
    json_bool(json, "fill", true);
    json_bool(json, "lazy_lock", false);
    json_string(json, "malloc_conf", "");
    json_bool(json, "opt_safety_checks", MW_SLOT_BITMAP);
    json_bool(json, "prof", PROFILE_IS_POSSIBLE);
    json_bool(json, "prof_libgcc", false);
    json_bool(json, "prof_libunwind", false);
    json_bool(json, "prof_frameptr", false);
    json_bool(json, "stats", true);
    json_bool(json, "utrace", false);
    json_bool(json, "xmalloc", true);
}

/* As `opt.*` of mallctl: what held when the program began. */
static void write_option(struct json *json, const struct conf_option *conf)
{
    long value = conf_value(conf);
    char buffer[32];
    switch (conf->type) {
    case CONF_TYPE_BOOL:
        json_bool(json, conf->name, value != 0);
        break;
    case CONF_TYPE_WORD:
        json_string(json, conf->name,
                    word_text(word_at(conf->words, value), buffer, sizeof buffer));
        break;
    case CONF_TYPE_TEXT:
        json_foreign(json, conf->name, conf_text(conf));
        break;
    case CONF_TYPE_PART:
        json_part(json, conf->name, value);
        break;
    default:
        json_signed(json, conf->name,
                    conf->target == OPTION_arenas ? (long)thread_arenas() : value);
        break;
    }
}

/* Where settings come from, and what stands there. As in 5.3.1. */
static void write_sources(struct json *json)
{
    bool is_text = json->prefix != NULL;
    json_foreign(json, is_text ? "Global variable malloc_conf" : "global_var", conf_of_program());
    json_foreign(json, is_text ? "Symbolic link malloc.conf" : "symlink", conf_of_system());
    json_foreign(json, is_text ? "Environment variable MALLOC_CONF" : "env_var",
                 conf_of_variable());
    if (conf_of_program_harder()[0] != 0) {
        json_foreign(json,
                     is_text ? "Global variable malloc_conf_2_conf_harder"
                             : "global_var_2_conf_harder",
                     conf_of_program_harder());
    }
}

static void write_options(struct json *json)
{
    for (unsigned i = 0; i < conf_count(); i++) {
        write_option(json, conf_at(i));
    }
}

static void stats_write_settings(struct sink *sink)
{
    struct json config = {sink, false, "config."};
    struct json sources = {sink, false, ""};
    struct json options = {sink, false, "opt."};
    sink_print(sink, "Build-time option settings");
    write_config(&config);
    sink_print(sink, "\nSystem configuration\n  system.thp_mode: \"%s\"", kernel_thp_mode());
    sink_print(sink, "\nRun-time option settings");
    write_sources(&sources);
    write_options(&options);
    sink_print(sink, "\n");
}

/* As `prof.*` of mallctl; jemalloc has it too only where the option prof is on. */
static void write_profile(struct json *json)
{
    if (!PROFILE_IS_POSSIBLE || !atomic_get(&profile.is_enabled)) {
        return;
    }
    json_open(json, "prof", '{');
    json_bool(json, "thread_active_init", atomic_get(&profile.starts_active));
    json_bool(json, "active", atomic_get(&profile.is_active));
    json_bool(json, "gdump", atomic_get(&profile.dumps_at_peak));
    json_number(json, "interval", profile_interval_bytes());
    json_signed(json, "lg_sample", (long)atomic_get(&profile.rate_log2));
    json_close(json, '}');
}

static void write_sizes(struct json *json, const struct stats *stats)
{
    json_open(json, "arenas", '{');
    json_number(json, "narenas", arena_numbers(thread_arenas()));
    json_signed(json, "dirty_decay_ms", option(OPTION_dirty_decay_ms));
    json_signed(json, "muzzy_decay_ms", option(OPTION_muzzy_decay_ms));
    json_number(json, "quantum", class_size(1));
    json_number(json, "page", os_page_size);
    json_number(json, "hugepage", REGION_ALIGNMENT);
    json_number(json, "tcache_max", thread_cached_most());
    json_number(json, "nbins", STATS_BINS);
    json_number(json, "nhbins", STATS_BINS);
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
    json_number(json, "nlextents", STATS_LEXTENTS);
    json_open(json, "lextent", '[');
    for (unsigned class = STATS_FIRST_LARGE; class < LARGE_CLASSES; class ++) {
        json_open(json, NULL, '{');
        json_number(json, "size", stats->all.large[class].size);
        json_close(json, '}');
    }
    json_close(json, ']');
    json_close(json, '}');
}

/* --- Mutexes ---------------------------------------------------------------------------------- */

static void write_mutex(struct json *json, struct word name, const struct stats_lock *lock)
{
    json_next_word(json, name);
    json_open_value(json, '{');
    json_number(json, "num_ops", lock->operations);
    json_number(json, "num_wait", lock->waits);
    json_number(json, "num_spin_acq", lock->spins);
    json_number(json, "num_owner_switch", lock->owner_changes);
    json_number(json, "total_wait_time", lock->wait_time);
    json_number(json, "max_wait_time", lock->wait_time_most);
    json_number(json, "max_num_thds", lock->queue_most);
    json_close(json, '}');
}

static void write_global_mutexes(struct json *json, const struct stats *stats)
{
    json_open(json, "mutexes", '{');
    long i = 0;
    for (struct word at = word_at(WORDS_MUTEX, 0); at.start != NULL;
         at = word_at(WORDS_MUTEX, ++i)) {
        write_mutex(json, at, stats_global_mutex(stats, (size_t)i));
    }
    json_close(json, '}');
}

static void write_arena_mutexes(struct json *json, const struct stats *stats,
                                const struct stats_arena *arena)
{
    json_open(json, "mutexes", '{');
    long i = 0;
    for (struct word at = word_at(WORDS_LOCK, 0); at.start != NULL; at = word_at(WORDS_LOCK, ++i)) {
        write_mutex(json, at, stats_arena_mutex(stats, arena, (size_t)i));
    }
    json_close(json, '}');
}

/* --- Arenas ----------------------------------------------------------------------------------- */

static void write_bins(struct json *json, const struct stats_arena *arena, bool has_mutexes)
{
    json_open(json, "bins", '[');
    for (unsigned bin = 0; bin < STATS_BINS; bin++) {
        const struct stats_class *of = &arena->classes[stats_bin_class(bin)];
        json_open(json, NULL, '{');
#define BIN JSON_FIGURE
#include "stats_json.def"
        if (has_mutexes) {
            write_mutex(json, word_at("mutex", 0), stats_bin_mutex(arena, bin));
        }
        json_close(json, '}');
    }
    json_close(json, ']');
}

static void write_lextents(struct json *json, const struct stats_arena *arena)
{
    json_open(json, "lextents", '[');
    for (unsigned lextent = 0; lextent < STATS_LEXTENTS; lextent++) {
        const struct stats_large whole = stats_lextent(arena, lextent), *of = &whole;
        json_open(json, NULL, '{');
#define LEXTENT JSON_FIGURE
#include "stats_json.def"
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
#define EXTENT JSON_FIGURE
#include "stats_json.def"
        json_close(json, '}');
    }
    json_close(json, ']');
}

/* What JSON has of the cache before that layer. */
#define WORDS_SEC "sec_bytes|sec_hits|sec_misses|sec_dalloc_noflush|sec_dalloc_flush|sec_overfills"

/* There is no such layer here. */
static void write_hpa(struct json *json)
{
    json_open(json, "hpa_shard", '{');
    json_zeros(json, WORDS_SEC);
    json_zeros(json, WORDS_HPA);
    json_open(json, "slabs", '{');
    json_zeros(json, WORDS_SLABS);
    json_close(json, '}');
    json_open(json, "full_slabs", '{');
    json_zeros(json, WORDS_SLABS);
    json_close(json, '}');
    json_open(json, "empty_slabs", '{');
    json_zeros(json, WORDS_SLABS);
    json_close(json, '}');
    json_open(json, "nonfull_slabs", '[');
    for (unsigned i = 0; i < STATS_HPA_LISTS; i++) {
        json_open(json, NULL, '{');
        json_zeros(json, WORDS_SLABS);
        json_close(json, '}');
    }
    json_close(json, ']');
    json_close(json, '}');
}

static void write_arena_figures(struct json *json, const struct stats *stats,
                                const struct stats_arena *of)
{
    const struct stats_words whole = stats_words_of(stats, of), *words = &whole;
    json_number(json, "uptime_ns", of->figures.uptime);
    json_string(json, "dss", "disabled");
    json_signed(json, "dirty_decay_ms", stats_decay_ms(stats, of, true));
    json_signed(json, "muzzy_decay_ms", stats_decay_ms(stats, of, false));
#define ARENA JSON_FIGURE
#include "stats_json.def"
    json_number(json, "sec_bytes", 0);
    json_open(json, "small", '{');
#define SMALL JSON_FIGURE
#include "stats_json.def"
    json_close(json, '}');
    json_open(json, "large", '{');
#define LARGE JSON_FIGURE
#include "stats_json.def"
    json_close(json, '}');
}

/* As `arena.<i>.name` of mallctl; none if it was destroyed meanwhile. */
static void write_arena_name(struct json *json, size_t number)
{
    char name[ARENA_NAME_SIZE] = "";
    struct arena *arena = arena_numbered((unsigned)number);
    if (arena != NULL) {
        arena_get_name(arena, name);
    }
    json_foreign(json, "name", name);
}

static void write_arena(struct json *json, const char *key, const struct stats *stats,
                        const struct stats_arena *arena, const struct stats_parts *parts)
{
    json_open(json, key, '{');
    if (arena != &stats->all) {
        write_arena_name(json, (size_t)(arena - stats->arenas));
    }
    write_arena_figures(json, stats, arena);
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
        char name[12] = "";
        text_print_behind(name, sizeof name, "%u", i);
        if (stats->arenas[i].is_made) {
            write_arena(json, name, stats, &stats->arenas[i], parts);
        }
    }
    json_close(json, '}');
}

static void write_totals(struct json *json, const struct stats *stats,
                         const struct stats_parts *parts)
{
    const struct stats_words whole = stats_words_of(stats, &stats->all), *words = &whole;
    json_open(json, "stats", '{');
#define TOTAL JSON_FIGURE
#include "stats_json.def"
    json_number(json, "huge_pages", stats->process.huge_pages); /* not in jemalloc's, */
    json_number(json, "mappings", stats->process.mappings);     /* nor this */
    json_open(json, "background_thread", '{');
#define WORKER JSON_FIGURE
#include "stats_json.def"
    json_close(json, '}');
    if (parts->mutexes) {
        write_global_mutexes(json, stats);
    }
    json_close(json, '}');
}

static void stats_write_json(struct sink *sink, const struct stats *stats,
                             const struct stats_parts *parts)
{
    struct json json = {sink, true, NULL};
    sink_print(sink, "{\n\"jemalloc\": {");
    if (parts->general) {
        json_string(&json, "version", JEMALLOC_VERSION);
        json_open(&json, "config", '{');
        write_config(&json);
        json_close(&json, '}');
        json_open(&json, "system", '{');
        json_string(&json, "thp_mode", kernel_thp_mode());
        json_close(&json, '}');
        json_open(&json, "opt", '{');
        write_sources(&json);
        write_options(&json);
        json_close(&json, '}');
        write_profile(&json);
        write_sizes(&json, stats);
    }
    write_totals(&json, stats, parts);
    if (parts->merged || parts->arenas) {
        write_arenas(&json, stats, parts);
    }
    sink_print(sink, "\n}\n}\n");
}
