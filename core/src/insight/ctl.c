/* SPDX-License-Identifier: MIT */
#define MW_NO_JEMALLOC_NAMES
#include "../../include/mallow/jemalloc.h"
#include "ctl_stats.h"

#include "../api/free.h"
#include "../arena/purge.h"
#include "../memory/meta.h"
#include "../thread/stack.h"
#include "../thread/tray.h"
#include "../thread/tick.h"
#include "ctl_explicit.h"
#include "ctl_prof.h"
#include "huge_pages.h"

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
#define CTL_TYPE_PART CTL_TYPE_UNSIGNED /* as in jemalloc, in parts of 65,536 */
#define OPT(name, type) {"opt." #name, CTL_GROUP_OPT, CTL_TYPE_##type, CTL_ACCESS_READ},
#define CONF_BOOL(name, value, target) OPT(name, BOOL)
#define CONF_NUMBER(name, type, value, minimum, maximum, target) OPT(name, type)
#define CONF_WORD(name, value, words, target) OPT(name, WORD)
#define CONF_TEXT(name, target) OPT(name, TEXT)
#define CONF_CLIPPED CONF_NUMBER
#include "../settings/conf.def"
#undef OPT
#undef CTL_TYPE_PART
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
    for (unsigned i = 0; i < arenas_ever(); i++) {
        struct arena *arena = arena_ever_at(i);
        lock_take(&arena->lock);
        size_t free_pages = arena->dirty.pages + arena->muzzy.pages + arena->retained.pages;
        bytes += arena->region_bytes - (free_pages << os_page_shift) +
                 (arena->huge_active_pages << os_page_shift);
        lock_release(&arena->lock);
    }
    return bytes;
}

/* There is one thread for all arenas, so no bound is ever exceeded. */
static _Atomic size_t background_threads; /* 0: nobody has written */

static size_t background_threads_most(void)
{
    size_t most = atomic_get(&background_threads);
    return most != 0 ? most : (size_t)conf_value(conf_at(CONF_max_background_threads));
}

static int global_read(unsigned id, uint64_t *value)
{
    switch (id) {
    case CTL_version:
        *value = text_value(JEMALLOC_VERSION);
        break;
    case CTL_epoch:
        return ctl_stats_epoch(value);
    case CTL_thp_mode:
        *value = text_value(kernel_thp_mode());
        break;
    case CTL_approximate_active:
        *value = approximate_active();
        break;
    case CTL_background_thread:
        *value = option(OPTION_purge_thread) != 0;
        break;
    default:
        *value = background_threads_most();
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
        free_news_tell(); /* one that is no longer wanted ends */
        purge_thread_want();
        return 0;
    default:
        if (value == 0 || value > (uint64_t)conf_value(conf_at(CONF_max_background_threads))) {
            return EINVAL; /* as in jemalloc, where there is room for those of the start */
        }
        atomic_set(&background_threads, value);
        return 0;
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
        *value = PROFILE_IS_POSSIBLE;
        break;
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
        *value = text_value(conf_text(conf));
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
    if (id == CTL_thread_arena) {
        *value = thread_arena();
        return 0;
    }
    if (id == CTL_thread_tcache_enabled || id == CTL_thread_tcache_max) {
        struct heap *heap = thread_enter();
        size_t most = heap->cached_most != 0 ? heap->cached_most : SLOT_MAX;
        *value = id == CTL_thread_tcache_max ? most : !heap->is_uncached;
        thread_leave(heap);
        return 0;
    }
    struct heap *heap = thread_count();
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
    case CTL_thread_peak_read:
        *value = heap->held_most;
        break;
    default:
        *value = (uintptr_t)&heap->deallocated;
        break;
    }
    return 0;
}

/* What lies in the heap's lists already goes back at once. */
static bool thread_write_cached(unsigned id, uint64_t value)
{
    size_t most = value >= SLOT_MAX ? 0 : size_max(value, 1);
    bool done =
        id == CTL_thread_tcache_max ? thread_set_cached_most(most) : thread_set_cached(value != 0);
    struct heap *heap = thread_enter();
    heap_collect(heap);
    thread_leave(heap);
    return done;
}

static bool thread_reset_peak(void)
{
    struct heap *heap = thread_count();
    if (heap != NULL) {
        heap->held_before = heap->allocated - heap->deallocated;
        heap->held_most = 0;
    }
    return heap != NULL;
}

static int thread_write(unsigned id, uint64_t value)
{
    switch (id) {
    case CTL_thread_arena:
        return value < UINT32_MAX && thread_use_arena((unsigned)value) ? 0 : EFAULT;
    case CTL_thread_tcache_enabled:
    case CTL_thread_tcache_max:
        return thread_write_cached(id, value) ? 0 : EAGAIN;
    case CTL_thread_peak_reset:
        return thread_reset_peak() ? 0 : EAGAIN;
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

/* --- Explicit caches -------------------------------------------------------------------------- */

static int tcache_create(uint64_t *value)
{
    unsigned created;
    int error = cache_create(&created);
    *value = created;
    return error;
}

static int tcache_write(unsigned id, uint64_t value)
{
    if (value == CTL_NO_VALUE) {
        return EINVAL;
    }
    return id == CTL_tcache_flush ? cache_flush((unsigned)value) : cache_destroy((unsigned)value);
}

/* --- Arenas ----------------------------------------------------------------------------------- */

static int arena_read(unsigned id, size_t index, uint64_t *value)
{
    struct arena *arena = arena_of_number(index);
    if (!number_is_valid(index)) {
        return ENOENT;
    }
    if (id == CTL_arena_initialized) {
        *value = arena != NULL || number_is_all(index) ||
                 (index == MALLCTL_ARENAS_DESTROYED && arenas_were_destroyed());
        return 0;
    }
    bool is_of_many = number_is_all(index) || index == MALLCTL_ARENAS_DESTROYED;
    if (id == CTL_arena_name && is_of_many) {
        return EINVAL;
    }
    bool is_known_before = (id == CTL_arena_extent_hooks && index < thread_arenas()) ||
                           (id == CTL_arena_dss && number_is_all(index));
    if (arena == NULL && !is_known_before) {
        return EFAULT;
    }
    switch (id) {
    case CTL_arena_dss:
        *value = text_value("disabled");
        break;
    case CTL_arena_dirty_decay_ms:
        *value = (uint64_t)arena_dirty_decay_ms(arena);
        break;
    case CTL_arena_muzzy_decay_ms:
        *value = (uint64_t)arena_muzzy_decay_ms(arena);
        break;
    case CTL_arena_extent_hooks:
        *value = (uintptr_t)arena_hooks(arena);
        break;
    case CTL_arena_retain_grow_limit:
        *value = arena_region_most(arena);
        break;
    case CTL_arena_oversize_threshold:
        *value = arena_oversize(arena);
        break;
    default: /* name: the value is the buffer */
        if (*value != 0) {
            arena_get_name(arena, (char *)*value);
        }
        break;
    }
    return 0;
}

/* Of one arena or of all. Free pages that lie with heaps come back first. */
static int arena_act(unsigned id, size_t index)
{
    if (!number_is_valid(index)) {
        return ENOENT;
    }
    struct heap *first = atomic_get_acquire(&heaps.all); /* pairs with heap_obtain */
    for (struct heap *at = first; at != NULL; at = at->next) {
        stack_rob(at);
    }
    trays_empty();
    for (unsigned i = 0; i < number_count(); i++) {
        struct arena *arena = arena_of_number(i);
        if (arena != NULL && (i == index || number_is_all(index))) {
            arena_give_back(arena, id == CTL_arena_purge);
        }
    }
    return 0;
}

/* False for what jemalloc takes for no time. What it takes for one may be longer than an arena waits here. */
static bool decay_ms_is_valid(enum option_id id, uint64_t value, long *ms)
{
    *ms = (long)value;
    bool is_valid = *ms >= -1 && *ms <= CONF_DECAY_MS_MOST;
    if (*ms > option_maximum(id)) {
        *ms = option_maximum(id);
    }
    return is_valid;
}

/* sbrk is never used; to write no word asks for nothing. */
static int dss_error(const char *word)
{
    if (word == NULL || text_is(word, "disabled")) {
        return 0;
    }
    return text_is(word, "primary") || text_is(word, "secondary") ? EFAULT : EINVAL;
}

static int arena_set(unsigned id, struct arena *arena, uint64_t value)
{
    bool is_dirty = id == CTL_arena_dirty_decay_ms;
    long ms;
    switch (id) {
    case CTL_arena_extent_hooks:
        return arena_set_hooks(arena, (extent_hooks_t *)value);
    case CTL_arena_retain_grow_limit:
        return arena_set_region_most(arena, value);
    case CTL_arena_oversize_threshold:
        arena_set_oversize(arena, value);
        return 0;
    case CTL_arena_name:
        if (value == 0) {
            return EINVAL;
        }
        arena_set_name(arena, (const char *)value);
        return 0;
    default:
        break;
    }
    if (!decay_ms_is_valid(OPTION_dirty_decay_ms, value, &ms)) {
        return EFAULT;
    }
    atomic_set(is_dirty ? &arena->dirty_ms : &arena->muzzy_ms, ms);
    arena_give_back(arena, false);
    free_news_tell();
    return 0;
}

static int arena_write(unsigned id, size_t index, uint64_t value)
{
    switch (id) {
    case CTL_arena_purge:
    case CTL_arena_decay:
        return arena_act(id, index);
    case CTL_arena_reset:
        return arena_reset(index);
    case CTL_arena_destroy:
        return arena_destroy(index);
    case CTL_arena_dss:
        return dss_error((const char *)value); /* reading has found the arena, or all */
    default: {
        struct arena *arena = arena_of_number(index);
        bool is_shared = id == CTL_arena_extent_hooks && index < thread_arenas();
        return arena != NULL ? arena_set(id, arena, value) : is_shared ? EPERM : EFAULT;
    }
    }
}

/* --- What holds for all arenas ---------------------------------------------------------------- */

static int arenas_read(unsigned id, uint64_t *value)
{
    switch (id) {
    case CTL_narenas:
        *value = number_count();
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
        *value = thread_cached_most();
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
    directs_tick(clock_look());
    free_news_tell();
    return 0;
}

static size_t sizes_count(unsigned id)
{
    return id == CTL_lextent_size ? STATS_LEXTENTS : STATS_BINS;
}

static int sizes_read(unsigned id, size_t index, uint64_t *value)
{
    check(index < sizes_count(id));
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

/* The index of the arena that has a block; `block` is replaced by it. Any address in a slab will do; larger
 * blocks are known by where they begin. */
static int arena_look_up(uint64_t *block)
{
    struct extent *extent = pagemap_find((void *)*block);
    if (extent_state(extent) != EXTENT_ACTIVE) {
        return EINVAL;
    }
    *block = arena_of(extent)->number;
    return 0;
}

/* --- By name ---------------------------------------------------------------------------------- */

static bool ctl_has_index(unsigned id, unsigned place, size_t index)
{
    switch (ctl_at(id)->group) {
    case CTL_GROUP_ARENA:
        return number_is_valid(index);
    case CTL_GROUP_SIZES:
        return index < sizes_count(id);
    default:
        return ctl_stats_has_index((enum ctl_group)ctl_at(id)->group, place, index);
    }
}

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
        return ctl_thread_prof_read(id, value);
    case CTL_GROUP_PROF:
        return ctl_prof_read(id, value);
    case CTL_GROUP_TCACHE:
        return tcache_create(value);
    case CTL_GROUP_ARENA:
        return arena_read(id, mib[1], value);
    case CTL_GROUP_ARENAS:
        return id == CTL_lookup   ? arena_look_up(value)
               : id == CTL_create ? arena_create((extent_hooks_t *)*value, value)
                                  : arenas_read(id, value);
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
        return ctl_thread_prof_write(id, value);
    case CTL_GROUP_PROF:
        return ctl_prof_write(id, value != CTL_NO_VALUE ? &value : NULL);
    case CTL_GROUP_TCACHE:
        return tcache_write(id, value);
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
