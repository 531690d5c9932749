/* SPDX-License-Identifier: MIT */
#define MW_NO_JEMALLOC_NAMES
#include "../../include/mallow/jemalloc.h"
#include "ctl_stats.h"

#include "../api/free.h"
#include "../arena/purge.h"
#include "../memory/meta.h"
#include "../thread/stack.h"
#include "../thread/sampling.h"
#include "../thread/tick.h"
#include "profile.h"

#include <errno.h>

static const struct ctl_name ctl_names[] = {
#define CTL(name, group, type, access, pattern) \
    {pattern, CTL_GROUP_##group, CTL_TYPE_##type, CTL_ACCESS_##access},
#include "ctl.def"
#undef CTL
#define WORD(group, type, pattern) \
    {"stats." pattern, CTL_GROUP_STATS##group, CTL_TYPE_##type, CTL_ACCESS_READ},
#define TOTAL(name, type, value) WORD(, type, #name)
#define WORKER(name, type, value) WORD(, type, "background_thread." #name)
#define ARENA(name, type, value) WORD(_ARENA, type, "arenas.<i>." #name)
#define ARENA_HIDDEN ARENA
#define SMALL(name, type, value) WORD(_ARENA, type, "arenas.<i>.small." #name)
#define LARGE(name, type, value) WORD(_ARENA, type, "arenas.<i>.large." #name)
#define BIN(name, type, value) WORD(_BIN, type, "arenas.<i>.bins.<j>." #name)
#define BIN_HIDDEN BIN
#define LEXTENT(name, type, value) WORD(_LEXTENT, type, "arenas.<i>.lextents.<j>." #name)
#define LEXTENT_HIDDEN LEXTENT
#define EXTENT(name, type, value) WORD(_EXTENT, type, "arenas.<i>.extents.<j>." #name)
#include "stats_json.def"
#undef WORD
#define OPT(name, type) {"opt." #name, CTL_GROUP_OPT, CTL_TYPE_##type, CTL_ACCESS_READ},
#define CONF_BOOL(name, value, target) OPT(name, BOOL)
#define CONF_NUMBER(name, type, value, minimum, maximum, target) OPT(name, type)
#define CONF_WORD(name, value, words, target) OPT(name, WORD)
#define CONF_TEXT(name) OPT(name, TEXT)
#include "../settings/conf.def"
#undef CONF_BOOL
#undef CONF_NUMBER
#undef CONF_WORD
#undef CONF_TEXT
#undef OPT
};

static unsigned ctl_count(void)
{
    return array_count(ctl_names);
}

static const struct ctl_name *ctl_at(unsigned id)
{
    check(id < ctl_count());
    return &ctl_names[id];
}

static uint64_t text_value(const char *text)
{
    return (uintptr_t)text;
}

/* --- Of the whole process --------------------------------------------------------------------- */

/* Pages in use, those in the stacks of heaps too: a sum of what arenas count anyway. */
static size_t approximate_active(void)
{
    size_t bytes = 0;
    for (unsigned i = 0; i < arena_count(); i++) {
        struct arena *arena = arena_at(i);
        lock_take(&arena->lock);
        size_t free_pages = arena->dirty.pages + arena->muzzy.pages + arena->retained.pages;
        bytes += arena->region_bytes - (free_pages << os_page_shift) +
                 (arena->huge_active_pages << os_page_shift);
        lock_release(&arena->lock);
    }
    return bytes;
}

static int global_read(unsigned id, uint64_t *value)
{
    switch (id) {
    case CTL_version:
        *value = text_value(JEMALLOC_VERSION);
        break;
    case CTL_epoch:
        return ctl_stats_epoch(value);
    case CTL_approximate_active:
        *value = approximate_active();
        break;
    case CTL_background_thread:
        *value = option(OPTION_purge_thread) != 0;
        break;
    default:
        *value = 1; /* max_background_threads */
        break;
    }
    return 0;
}

static int global_write(unsigned id, uint64_t value)
{
    switch (id) {
    case CTL_epoch:
        return ctl_stats_refresh();
    case CTL_background_thread:
        option_set(OPTION_purge_thread, value != 0);
        purge_thread_want();
        return 0;
    default:
        return value != 0 ? 0
                          : EINVAL; /* there is one thread for all arenas, however many may be */
    }
}

static int config_read(unsigned id, uint64_t *value)
{
    switch (id) {
    case CTL_debug:
        *value = MW_MODE == MW_DEBUG;
        break;
    case CTL_opt_safety_checks:
        *value = MW_MODE != MW_FAST;
        break;
    case CTL_malloc_conf:
        *value = text_value("");
        break;
    case CTL_prof:
    case CTL_fill:
    case CTL_stats:
    case CTL_xmalloc:
        *value = true;
        break;
    default:
        *value = false;
        break;
    }
    return 0;
}

/* --- Options ---------------------------------------------------------------------------------- */

/* A word of an option, ended by 0. */
static const char *word_ended(struct word word)
{
    static const char words[][10] = {"false",  "true",  "alloc", "free",      "abort",   "default",
                                     "always", "never", "auto",  "disabled",  "primary", "percpu",
                                     "phycpu", "none",  "eager", "secondary", "lazy",    "high"};
    for (size_t i = 0; i < array_count(words); i++) {
        if (word_is(word, words[i])) {
            return words[i];
        }
    }
    require(word.start == NULL); /* the table above has every word of conf.def */
    return "";
}

static int opt_read(unsigned index, uint64_t *value)
{
    const struct conf_option *conf = conf_at(index);
    long number = conf_value(conf);
    if (conf->type == CONF_TYPE_TEXT) {
        *value = text_value(strcmp(conf->name, "prof_prefix") == 0 ? prof_prefix() : "");
    } else if (conf->type == CONF_TYPE_WORD) {
        *value = text_value(word_ended(word_at(conf->words, number)));
    } else if (conf->target == OPTION_arenas) {
        *value = thread_arenas();
    } else {
        *value = (uint64_t)number;
    }
    return 0;
}

/* --- Of the calling thread -------------------------------------------------------------------- */

static int thread_read(unsigned id, uint64_t *value)
{
    struct heap *heap;
    if (id == CTL_thread_tcache_enabled) {
        *value = true;
        return 0;
    }
    if (id == CTL_thread_arena) {
        heap = thread_enter();
        *value = heap->arena->index;
        thread_leave(heap);
        return 0;
    }
    heap = thread_count();
    if (heap == NULL) {
        return EAGAIN;
    }
    switch (id) {
    case CTL_thread_allocated:
        *value = heap->allocated;
        break;
    case CTL_thread_allocatedp:
        *value = (uintptr_t)&heap->allocated;
        break;
    case CTL_thread_deallocated:
        *value = heap->deallocated;
        break;
    default:
        *value = (uintptr_t)&heap->deallocated;
        break;
    }
    return 0;
}

static int thread_write(unsigned id, uint64_t value)
{
    switch (id) {
    case CTL_thread_arena:
        return value < UINT32_MAX && thread_use_arena((unsigned)value) ? 0 : EFAULT;
    case CTL_thread_tcache_flush: {
        struct heap *heap = thread_enter();
        heap_collect(heap);
        thread_leave(heap);
        return 0;
    }
    default:
        mw_collect(false); /* thread.idle */
        return 0;
    }
}

/* --- Profiles --------------------------------------------------------------------------------- */

/* Waits for a profile that another thread writes; not for ever, as a signal handler may have interrupted
 * this one in writing it. */
#define DUMP_TRIES 2000u

static int dump_asked_for(const char *path)
{
    static uint32_t never_changes;
    int error = EAGAIN;
    for (unsigned tries = 0; tries < DUMP_TRIES && error == EAGAIN; tries++) {
        error = profile_dump(path, DUMP_ASKED_FOR);
        if (error == EAGAIN) {
            os_wait(&never_changes, 0, 1);
        }
    }
    return error == 0 ? 0 : error == EAGAIN ? EAGAIN : EFAULT;
}

static int prof_read(unsigned id, uint64_t *value)
{
    switch (id) {
    case CTL_prof_thread_active_init:
        *value = atomic_get(&profile.is_enabled) && atomic_get(&profile.starts_active);
        break;
    case CTL_prof_active:
        *value = atomic_get(&profile.is_active);
        break;
    case CTL_prof_gdump:
        *value = atomic_get(&profile.dumps_at_peak);
        break;
    case CTL_prof_interval:
        *value = option(OPTION_lg_prof_interval) < 0
                     ? 0
                     : (uint64_t)1 << option(OPTION_lg_prof_interval);
        break;
    default:
        *value = atomic_get(&profile.rate_log2);
        break;
    }
    return 0;
}

/* The calling thread begins or ends to take samples at once; others when they look at the clock. */
static void follow_profile(void)
{
    struct heap *heap = thread_enter();
    heap_follow_profile(heap);
    thread_leave(heap);
}

static int prof_write(unsigned id, uint64_t value)
{
    const char *text = value != CTL_NO_VALUE ? (const char *)value : NULL;
    if (!atomic_get(&profile.is_enabled)) {
        return ENOENT;
    }
    switch (id) {
    case CTL_prof_thread_active_init:
        atomic_set(&profile.starts_active, value != 0);
        return 0;
    case CTL_prof_active:
        profile_set_active(value != 0);
        follow_profile();
        return 0;
    case CTL_prof_gdump:
        atomic_set(&profile.dumps_at_peak, value != 0);
        return 0;
    case CTL_prof_prefix:
        return text != NULL && prof_prefix_set((struct word){text, strlen(text)}) ? 0 : EINVAL;
    case CTL_prof_reset:
        if (value != CTL_NO_VALUE && value > (uint64_t)option_maximum(OPTION_lg_prof_sample)) {
            value = (uint64_t)option_maximum(OPTION_lg_prof_sample);
        }
        profile_reset(value != CTL_NO_VALUE ? (unsigned)value : atomic_get(&profile.rate_log2));
        follow_profile();
        return 0;
    default:
        return dump_asked_for(text);
    }
}

static int thread_prof_read(unsigned id, uint64_t *value)
{
    struct heap *heap = thread_enter();
    *value = id == CTL_thread_prof_name ? text_value(heap->profile_name)
                                        : atomic_get(&profile.is_enabled) && heap->may_sample;
    thread_leave(heap);
    return 0;
}

/* A name of printable characters, cut to what there is room for. */
static int thread_name_set(struct heap *heap, const char *name)
{
    size_t length = name != NULL ? strlen(name) : 0;
    for (size_t i = 0; i < length; i++) {
        if (name[i] < ' ' || name[i] > '~') {
            return EFAULT;
        }
    }
    length = size_min(length, sizeof heap->profile_name - 1);
    memcpy(heap->profile_name, name, length);
    heap->profile_name[length] = 0;
    return name != NULL ? 0 : EINVAL;
}

static int thread_prof_write(unsigned id, uint64_t value)
{
    int error = 0;
    if (!atomic_get(&profile.is_enabled)) {
        return ENOENT;
    }
    struct heap *heap = thread_enter();
    if (id == CTL_thread_prof_name) {
        error = thread_name_set(heap, (const char *)value);
    } else {
        heap->may_sample = value != 0;
        heap_follow_profile(heap);
    }
    thread_leave(heap);
    return error;
}

/* --- Arenas ----------------------------------------------------------------------------------- */

/* Whether the index means all arenas: by its own number, and by the one that older programs use. */
static bool index_is_all(size_t index)
{
    return index == MALLCTL_ARENAS_ALL || index == thread_arenas();
}

static bool index_is_valid(size_t index)
{
    return index < thread_arenas() || index_is_all(index) || index == MALLCTL_ARENAS_DESTROYED;
}

/* The arena of an index; NULL if it means several, or one that is not made yet. */
static struct arena *arena_of_index(size_t index)
{
    return index < arena_count() ? arena_at((unsigned)index) : NULL;
}

static int arena_read(unsigned id, size_t index, uint64_t *value)
{
    struct arena *arena = arena_of_index(index);
    if (!index_is_valid(index)) {
        return ENOENT;
    }
    if (id == CTL_arena_initialized) {
        *value = arena != NULL || index_is_all(index);
        return 0;
    }
    if (id == CTL_arena_dss) {
        *value = text_value("disabled");
        return 0;
    }
    if (arena == NULL) {
        return EFAULT;
    }
    *value = (uint64_t)(id == CTL_arena_dirty_decay_ms ? arena_dirty_decay_ms(arena)
                                                       : arena_muzzy_decay_ms(arena));
    return 0;
}

static void purge_or_decay(unsigned id, struct arena *arena)
{
    if (id == CTL_arena_purge) {
        arena_purge(arena, 0);
    } else {
        arena_tick(arena, clock_look());
    }
}

/* Of one arena or of all. Free pages that lie with heaps come back first. */
static int arena_act(unsigned id, size_t index)
{
    if (!index_is_valid(index)) {
        return ENOENT;
    }
    struct heap *first = atomic_get_acquire(&heaps.all); /* pairs with heap_obtain */
    for (struct heap *at = first; at != NULL; at = at->next) {
        stack_rob(at);
    }
    for (unsigned i = 0; i < arena_count(); i++) {
        if (i == index || index_is_all(index)) {
            purge_or_decay(id, arena_at(i));
        }
    }
    return 0;
}

static bool decay_ms_is_valid(enum option_id id, uint64_t value, long *ms)
{
    *ms = (long)value;
    if (*ms > option_maximum(id)) {
        *ms = option_maximum(id);
    }
    return *ms >= -1;
}

static int arena_write(unsigned id, size_t index, uint64_t value)
{
    if (id == CTL_arena_purge || id == CTL_arena_decay) {
        return arena_act(id, index);
    }
    struct arena *arena = arena_of_index(index);
    bool is_dirty = id == CTL_arena_dirty_decay_ms;
    long ms;
    if (arena == NULL || !decay_ms_is_valid(OPTION_dirty_decay_ms, value, &ms)) {
        return EFAULT;
    }
    atomic_set(is_dirty ? &arena->dirty_ms : &arena->muzzy_ms, ms);
    arena_tick(arena, clock_look());
    return 0;
}

/* --- What holds for all arenas ---------------------------------------------------------------- */

static int arenas_read(unsigned id, uint64_t *value)
{
    switch (id) {
    case CTL_narenas:
        *value = thread_arenas();
        break;
    case CTL_dirty_decay_ms:
        *value = (uint64_t)option(OPTION_dirty_decay_ms);
        break;
    case CTL_muzzy_decay_ms:
        *value = (uint64_t)option(OPTION_muzzy_decay_ms);
        break;
    case CTL_quantum:
        *value = BLOCK_ALIGNMENT;
        break;
    case CTL_page:
        *value = os_page_size;
        break;
    case CTL_hugepage:
        *value = REGION_ALIGNMENT;
        break;
    case CTL_tcache_max:
        *value = SLOT_MAX;
        break;
    case CTL_nlextents:
        *value = STATS_LEXTENTS;
        break;
    default:
        *value = STATS_BINS; /* nbins, nhbins */
        break;
    }
    return 0;
}

/* Holds at once for every arena that has no time of its own. */
static int arenas_write(unsigned id, uint64_t value)
{
    enum option_id option_id =
        id == CTL_dirty_decay_ms ? OPTION_dirty_decay_ms : OPTION_muzzy_decay_ms;
    long ms;
    if (!decay_ms_is_valid(option_id, value, &ms)) {
        return EFAULT;
    }
    option_set(option_id, ms);
    for (unsigned i = 0; i < arena_count(); i++) {
        arena_tick(arena_at(i), clock_look());
    }
    return 0;
}

static int sizes_read(unsigned id, size_t index, uint64_t *value)
{
    if (index >= (id == CTL_lextent_size ? STATS_LEXTENTS : STATS_BINS)) {
        return ENOENT;
    }
    unsigned class = stats_bin_class((unsigned)index);
    switch (id) {
    case CTL_lextent_size:
        *value = large_class_pages(STATS_FIRST_LARGE + (unsigned)index) << os_page_shift;
        break;
    case CTL_bin_size:
        *value = class_size(class);
        break;
    case CTL_bin_nregs:
        *value = stats_bin_slots(class);
        break;
    case CTL_bin_slab_size:
        *value = stats_bin_slab_size(class);
        break;
    default:
        *value = 1; /* nshards */
        break;
    }
    return 0;
}

/* The index of the arena that has a block; `block` is replaced by it. */
static int arena_look_up(uint64_t *block)
{
    struct extent *extent = pagemap_find((void *)*block);
    if (extent == pagemap_nothing() || mw_malloc_usable_size((void *)*block) == 0) {
        return EINVAL;
    }
    *block = arena_of(extent)->index;
    return 0;
}

/* --- By name ---------------------------------------------------------------------------------- */

static int ctl_read(unsigned id, const size_t *mib, uint64_t *value)
{
    switch (ctl_at(id)->group) {
    case CTL_GROUP_GLOBAL:
        return global_read(id, value);
    case CTL_GROUP_CONFIG:
        return config_read(id, value);
    case CTL_GROUP_THREAD:
        return thread_read(id, value);
    case CTL_GROUP_THREAD_PROF:
        return thread_prof_read(id, value);
    case CTL_GROUP_PROF:
        return prof_read(id, value);
    case CTL_GROUP_ARENA:
        return arena_read(id, mib[1], value);
    case CTL_GROUP_ARENAS:
        return id == CTL_lookup ? arena_look_up(value) : arenas_read(id, value);
    case CTL_GROUP_SIZES:
        return sizes_read(id, mib[2], value);
    case CTL_GROUP_OPT:
        return opt_read(id - CTL_OPT, value);
    default:
        return ctl_stats_read((enum ctl_group)ctl_at(id)->group, id, mib, value);
    }
}

static int ctl_write(unsigned id, const size_t *mib, uint64_t value)
{
    switch (ctl_at(id)->group) {
    case CTL_GROUP_GLOBAL:
        return global_write(id, value);
    case CTL_GROUP_THREAD:
        return thread_write(id, value);
    case CTL_GROUP_THREAD_PROF:
        return thread_prof_write(id, value);
    case CTL_GROUP_PROF:
        return prof_write(id, value);
    case CTL_GROUP_ARENA:
        return arena_write(id, mib[1], value);
    case CTL_GROUP_ARENAS:
        return arenas_write(id, value);
    case CTL_GROUP_STATS:
        stats_reset_locks(); /* stats.mutexes.reset */
        return 0;
    default:
        return EPERM;
    }
}
