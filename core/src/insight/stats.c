/* SPDX-License-Identifier: MIT */
#include "stats.h"

#include "../memory/meta.h"
#include "../os/tags.h"
#include "../thread/heaps.h"
#include "../thread/stack.h"
#include "../thread/tray.h"
#include "stats_past.h"
#include "stats_walk.h"

#include <string.h>

static const char *const stats_arena_lock_names[STATS_ARENA_LOCKS] = {"arena", "purge", "pool",
                                                                      "growth"};
static const char *const stats_process_lock_names[STATS_PROCESS_LOCKS] = {
    "process", "heaps",      "shared",  "tray",  "rob",    "meta",
    "table",   "quarantine", "emptied", "limit", "tables", "guarded"};

/* a - b, or 0: numbers that are read one after the other may not fit. */
static uint64_t less(uint64_t a, uint64_t b)
{
    return a > b ? a - b : 0;
}

/* Whether a heap was ever used, in an arena that is being read. */
static bool heap_counts(struct stats *stats, struct heap *heap)
{
    struct arena *arena = atomic_peek(&heap->arena);
    return arena != NULL && (stats->is_folded || arena->index < stats->arena_count);
}

/* --- What heaps hold -------------------------------------------------------------------------- */

/* A list may hold slots of any arenas in any order, so it is walked with the locks of all of them, from
 * 0 to `locked`: then no page of a slab is unmapped. The thread may be changing what is looked at. */

/* Where a slot of a slab is counted; NULL if it is none, or of an arena that was made since. */
static struct stats_class *class_of_slot_locked(struct stats *stats, unsigned locked,
                                                struct extent *extent, const struct slot *slot)
{
    bool is_slot = extent_state(extent) == EXTENT_ACTIVE && extent_arena(extent) < locked &&
                   extent_is_slab(extent) && slab_has_slot(extent, slot);
    if (!is_slot) {
        return NULL;
    }
    unsigned class = slab_is_common(extent) ? common_block_class(extent, slab_index(extent, slot))
                                            : extent->slab.class;
    return &place_of_arena(stats, extent_arena(extent))->classes[class];
}

/* What is in a list was handed out, but not to the program. Each slot is looked at before its link is
 * followed. Returns how many there were. */
__attribute__((no_sanitize("thread"))) static uint32_t
add_list_locked(struct stats *stats, unsigned locked, struct slot *slot, uint32_t most)
{
    uint32_t length = 0;
    for (; slot != NULL && length < most; length++) {
        struct stats_class *to = class_of_slot_locked(stats, locked, pagemap_find(slot), slot);
        if (to == NULL) {
            break;
        }
        to->slots_cached++;
        slot = slot_peek_next(slot);
    }
    return length;
}

__attribute__((no_sanitize("thread"))) static void
add_outboxes_locked(struct stats *stats, unsigned locked, struct heap *heap)
{
    for (unsigned i = 0; i < OUTBOXES; i++) {
        struct extent *extent = atomic_peek(&heap->outboxes[i].slab);
        if (extent == NULL) {
            continue;
        }
        uint32_t count = add_list_locked(stats, locked, atomic_peek(&heap->outboxes[i].head),
                                         atomic_peek(&heap->outboxes[i].count));
        struct stats_arena *to = place_of_arena(stats, heap->arena->index);
        to->classes[extent->slab.class].remote_frees += count;
    }
}

__attribute__((no_sanitize("thread"))) static void
add_delayed_locked(struct stats *stats, unsigned locked, struct heap *heap)
{
    for (unsigned i = 0; i < DELAY_PLACES; i++) {
        struct slot *slot = delay_at(heap, i);
        struct stats_class *to =
            slot != NULL ? class_of_slot_locked(stats, locked, pagemap_find(slot), slot) : NULL;
        if (to != NULL) {
            to->slots_cached++;
        }
    }
}

/* What is in a batch is free in its arena, although its slab counts it as out. */
__attribute__((no_sanitize("thread"))) static void
take_off_batches_locked(struct stats *stats, unsigned locked, struct slab_pool *pool)
{
    for (unsigned class = SMALL_CLASSES; class < CLASSES; class ++) {
        uint8_t number = atomic_get(batch_first_of(pool, class));
        for (unsigned i = 0; number != 0 && i < BATCHES_MOST; i++) {
            uint64_t batch = atomic_get(batch_at(pool, number));
            number = batch_after(pool, number);
            struct slot *slot = list_word_head(batch);
            for (uint32_t left = list_word_length(batch); slot != NULL && left > 0; left--) {
                struct extent *extent = pagemap_find(slot);
                struct stats_class *of = class_of_slot_locked(stats, locked, extent, slot);
                if (of == NULL || of->slots_out == 0) {
                    break;
                }
                of->slots_out--;
                place_of_arena(stats, extent_arena(extent))->figures.small_bytes -=
                    extent->slab.slot_size;
                slot = slot_peek_next(slot);
            }
        }
    }
}

/* Blocks of another thread's list are not looked at: any of them may be the program's by now, which may have taken the
 * access to it away. */
__attribute__((no_sanitize("thread"))) static void
take_off_blocks_locked(struct stats *stats, unsigned locked, struct heap *heap)
{
    for (unsigned class = CLASSES; !MW_CODED_LINKS && class < LIST_CLASSES; class ++) {
        if (heap == heap_own) {
            stats_walk_blocks_locked(stats, locked, heap->free[class]);
        } else if (heap->rooms[class] != 0) {
            stats_guess_blocks_locked(stats, locked, heap->arena->index, page_class_of_block(class),
                                      magazine_count(heap, class));
        }
    }
}

/* Nothing that lies in a heap, a tray or a batch is of an explicit arena. */
static void read_heaps(struct stats *stats)
{
    unsigned locked = arena_count();
    locked = stats->is_folded ? locked : (unsigned)size_min(locked, stats->arena_count);
    for (unsigned i = 0; i < locked; i++) {
        lock_take(&arena_at(i)->lock);
    }
    for (struct heap *heap = heap_first(); heap != NULL; heap = heap_after(heap)) {
        if (!heap_counts(stats, heap)) {
            continue;
        }
        struct stats_class *of_heap = place_of_arena(stats, heap->arena->index)->classes;
        for (unsigned class = 0; class < CLASSES; class ++) {
            of_heap[class].allocations -=
                add_list_locked(stats, locked, atomic_peek(&heap->free[class]), SLAB_SLOTS_MAX);
        }
        take_off_blocks_locked(stats, locked, heap);
        add_outboxes_locked(stats, locked, heap);
        if (MW_DELAY_FREE) {
            add_delayed_locked(stats, locked, heap);
        }
    }
    for (unsigned i = 0; i < locked; i++) {
        add_list_locked(stats, locked, tray_first_slot(arena_at(i)), SLAB_SLOTS_MAX);
        if (depot_has_batches(arena_at(i))) {
            take_off_batches_locked(stats, locked, slab_pool_at(arena_at(i)));
        }
    }
    for (unsigned i = locked; i-- > 0;) {
        lock_release(&arena_at(i)->lock);
    }
}

__attribute__((no_sanitize("thread"))) static void add_counts(struct stats *stats,
                                                              struct heap *heap)
{
    struct stats_arena *to = place_of_arena(stats, heap->arena->index);
    for (unsigned class = 1; class < CLASSES; class ++) {
        struct class_counts *counts = &heap->counts[class];
        struct stats_class *figures = &to->classes[class];
        figures->filled += counts->handed;
        figures->fills += counts->fills;
        figures->flushed += counts->returned;
        figures->flushes += counts->flushes;
        figures->puts += heap->puts[class];
        figures->remote_frees += counts->sent;
        figures->slabs_made += counts->slabs;
        figures->allocations += counts->handed + heap->puts[class] - counts->returned;
    }
    for (unsigned class = 0; class < LARGE_CLASSES; class ++) {
        to->large[class].allocations += heap->large_counts[class];
    }
    for (unsigned class = CLASSES; class < LIST_CLASSES; class ++) {
        unsigned page_class = page_class_of_block(class);
        if (page_class < PAGE_CLASSES && page_class_is_listed(page_class)) {
            to->large[page_class].allocations += heap->puts[class] - magazine_count(heap, class);
        }
    }
    to->figures.heaps += heap != &heap_shared;
    to->figures.threads += heap->thread != NULL && atomic_peek(&heap->bound) == NULL;
}

/* --- Locks ------------------------------------------------------------------------------------ */

__attribute__((no_sanitize("thread"))) static struct stats_lock figures_of_lock(struct lock *lock)
{
    return (struct stats_lock){
        .operations = atomic_get(&lock->turns),
        .owner_changes = atomic_peek(&lock->owner_changes),
        .spins = atomic_peek(&lock->spins),
        .waits = atomic_peek(&lock->waits),
        .wait_time = atomic_peek(&lock->wait_ns),
        .wait_time_most = atomic_peek(&lock->wait_ns_most),
        .queue_most = atomic_peek(&lock->queue_most),
    };
}

static struct lock *process_lock_at(unsigned index)
{
    struct lock *const locks[STATS_PROCESS_LOCKS] = {
        &process.lock, &process.heaps_lock, &process.shared_lock, &tray_lock,
        &rob_lock,     &meta.lock,          &table_lock,          &quarantine.lock,
        &emptied_lock, &memory_limit.lock,  &track_tables_lock,   &guarded_lock};
    check(index < STATS_PROCESS_LOCKS);
    return locks[index];
}

static struct lock *arena_lock_at(struct arena *arena, unsigned index)
{
    struct lock *const locks[STATS_ARENA_LOCKS] = {&arena->lock, &arena->purge_lock,
                                                   arena->is_explicit ? &direct_find(arena)->lock
                                                                      : &slab_pool_at(arena)->lock,
                                                   &arena->growth_lock};
    return locks[index];
}

static void stats_reset_locks(void)
{
    for (unsigned i = 0; i < STATS_PROCESS_LOCKS; i++) {
        lock_reset_counts(process_lock_at(i));
    }
    for (unsigned i = 0; i < arena_numbers(arena_count()) * STATS_ARENA_LOCKS; i++) {
        struct arena *arena = arena_numbered(i / STATS_ARENA_LOCKS);
        if (arena != NULL) {
            lock_reset_counts(arena_lock_at(arena, i % STATS_ARENA_LOCKS));
        }
    }
}

/* --- Sums ------------------------------------------------------------------------------------- */

static uint64_t joined(enum mw_stat_type type, uint64_t a, uint64_t b)
{
    return type == MW_STAT_COUNTER || type == MW_STAT_GAUGE ? a + b : a > b ? a : b;
}

#define JOIN(name, type, unit, help) to->name = joined(MW_STAT_##type, to->name, from->name);

static void join_class(struct stats_class *to, const struct stats_class *from)
{
#define CLASS JOIN
#include "stats.def"
    uint64_t held = less(to->slots_out, to->slots_cached);
    to->occupancy = to->slots != 0 ? held * 1000 / to->slots : 0;
}

static void join_large(struct stats_large *to, const struct stats_large *from)
{
#define LARGE JOIN
#include "stats.def"
}

static void join_extents(struct stats_extents *to, const struct stats_extents *from)
{
#define EXTENT JOIN
#include "stats.def"
}

static void join_lock(struct stats_lock *to, const struct stats_lock *from)
{
#define LOCK JOIN
#include "stats.def"
}

static void join_figures(struct stats_arena_figures *to, const struct stats_arena_figures *from)
{
    uint64_t uptime = joined(MW_STAT_PEAK, to->uptime, from->uptime);
#define ARENA JOIN
#include "stats.def"
    to->uptime = uptime;
}

static void join_arena(struct stats_arena *to, const struct stats_arena *from)
{
    join_figures(&to->figures, &from->figures);
    for (unsigned i = 0; i < CLASSES; i++) {
        join_class(&to->classes[i], &from->classes[i]);
    }
    for (unsigned i = 0; i < LARGE_CLASSES; i++) {
        join_large(&to->large[i], &from->large[i]);
    }
    for (unsigned i = 0; i < EXTENT_BINS; i++) {
        join_extents(&to->extents[i], &from->extents[i]);
    }
    for (unsigned i = 0; i < STATS_ARENA_LOCKS; i++) {
        join_lock(&to->locks[i], &from->locks[i]);
    }
}

/* --- Arenas ----------------------------------------------------------------------------------- */

static void add_arena_counts_locked(struct stats_arena *to, struct arena *arena)
{
    struct stats_arena_figures *figures = &to->figures;
    uint64_t uptime = (os_now_ms() - arena->made_ms) * 1000000;
    figures->uptime = size_max(figures->uptime, uptime);
    figures->region_bytes += arena->region_bytes;
    figures->regions_made += arena->regions_made;
    figures->regions_dropped += arena->regions_dropped;
    figures->dirty_bytes += (arena->dirty.pages + arena->huge.pages) << os_page_shift;
    figures->muzzy_bytes += arena->muzzy.pages << os_page_shift;
    figures->huge_dirty_bytes += arena->huge.pages << os_page_shift;
    figures->retained_bytes += arena->retained.pages << os_page_shift;
    figures->dirty_purges += arena->dirty_purges.runs;
    figures->dirty_purge_calls += arena->dirty_purges.calls;
    figures->dirty_pages_purged += arena->dirty_purges.pages;
    figures->muzzy_purges += arena->muzzy_purges.runs;
    figures->muzzy_purge_calls += arena->muzzy_purges.calls;
    figures->muzzy_pages_purged += arena->muzzy_purges.pages;
    figures->pages_refaulted += arena->pages_refaulted;
    figures->patience += atomic_get(&arena->dirty_decay.patience);
    struct link *head = &arena->descriptors;
    for (struct link *at = list_first(head); at != head; at = at->next) {
        figures->unused_descriptors++;
    }
}

static void read_arena(struct stats *stats, struct arena *arena)
{
    struct stats_arena *to = place_of_arena(stats, arena->number);
    to->is_made = true;
    struct lock *pool = arena->is_explicit ? NULL : &slab_pool_at(arena)->lock;
    if (pool != NULL) {
        lock_take(pool);
    }
    lock_take(&arena->lock);
    stats_walk_arena(to, arena);
    add_arena_counts_locked(to, arena);
    lock_release(&arena->lock);
    if (pool != NULL) {
        lock_release(pool);
    }
    struct direct *direct = direct_find(arena);
    if (direct != NULL) {
        stats_add_direct(to, direct);
    }
    for (unsigned i = 0; i < STATS_ARENA_LOCKS; i++) {
        struct stats_lock lock = figures_of_lock(arena_lock_at(arena, i));
        join_lock(&to->locks[i], &lock);
    }
}

/* --- What follows from the rest --------------------------------------------------------------- */

/* What was given out less what is out. If more is out than this arena's heaps were given, others were:
 * the rest is taken off those that come next. */
static uint64_t gone(uint64_t given, uint64_t out, uint64_t *owed)
{
    uint64_t all_out = out + *owed;
    *owed = less(all_out, given);
    return less(given, all_out);
}

static void derive_class(struct stats *stats, unsigned class)
{
    uint64_t owed_frees = 0, owed_slabs = 0;
    for (unsigned round = 0; round < 2 && (round == 0 || owed_frees + owed_slabs != 0); round++) {
        for (unsigned i = 0; i < stats->arena_count; i++) {
            struct stats_class *figures = &stats->arenas[i].classes[class];
            uint64_t held = less(figures->slots_out, figures->slots_cached);
            if (figures->allocations > UINT64_MAX / 2) {
                figures->allocations = 0; /* a list was filled between two looks */
            }
            uint64_t frees = round == 0 ? figures->allocations : figures->frees;
            uint64_t drops = round == 0 ? figures->slabs_made : figures->slabs_dropped;
            figures->size = class_size(class);
            figures->frees = gone(frees, round == 0 ? held : 0, &owed_frees);
            figures->slabs_dropped = gone(drops, round == 0 ? figures->slabs : 0, &owed_slabs);
            figures->occupancy = figures->slots != 0 ? held * 1000 / figures->slots : 0;
        }
    }
}

static void derive_large(struct stats *stats, unsigned class)
{
    uint64_t owed = 0;
    for (unsigned round = 0; round < 2 && (round == 0 || owed != 0); round++) {
        for (unsigned i = 0; i < stats->arena_count; i++) {
            struct stats_large *figures = &stats->arenas[i].large[class];
            if (figures->allocations > UINT64_MAX / 2) {
                figures->allocations = 0; /* a list was shorter at the second of two looks */
            }
            uint64_t frees = round == 0 ? figures->allocations : figures->frees;
            figures->size = large_class_pages(class) << os_page_shift;
            figures->frees = gone(frees, round == 0 ? figures->blocks : 0, &owed);
        }
    }
}

static void derive_arena(struct stats_arena *arena)
{
    for (unsigned class = 1; class < CLASSES; class ++) {
        struct stats_class *figures = &arena->classes[class];
        arena->figures.cached_bytes += figures->slots_cached * figures->size;
    }
    for (unsigned bin = 0; bin < EXTENT_BINS; bin++) {
        arena->extents[bin].pages = extent_bin_pages(bin);
    }
}

/* --- The process ------------------------------------------------------------------------------ */

/* Of what threads do meanwhile, up to a list is miscounted, but a counter must not go back. */
static uint64_t never_less(_Atomic(uint64_t) *told, uint64_t now)
{
    uint64_t before = atomic_get(told);
    while (before < now && !atomic_replace(told, &before, now)) {
    }
    return size_max(before, now);
}

static void read_process(struct stats *stats)
{
    static _Atomic(uint64_t) allocations_told, frees_told;
    const struct stats_arena_figures *sum = &stats->all.figures;
    struct stats_process *to = &stats->process;
    for (unsigned i = 0; i < CLASSES; i++) {
        to->allocations += stats->all.classes[i].allocations;
        to->frees += stats->all.classes[i].frees;
        to->remote_frees += stats->all.classes[i].remote_frees;
    }
    for (unsigned i = 0; i < LARGE_CLASSES; i++) {
        to->allocations += stats->all.large[i].allocations;
        to->frees += stats->all.large[i].frees;
    }
    to->allocations = never_less(&allocations_told, to->allocations);
    to->frees = never_less(&frees_told, to->frees);
    to->allocated = less(sum->small_bytes, sum->cached_bytes) + sum->large_bytes;
    to->cached = sum->cached_bytes;
    to->active = sum->slab_bytes + sum->large_bytes;
    to->dirty = sum->dirty_bytes + sum->stacked_bytes;
    to->muzzy = sum->muzzy_bytes;
    to->retained = sum->retained_bytes;
    to->metadata = meta_bytes();
    to->metadata_descriptors = descriptor_bytes();
    to->metadata_page_map = pagemap_bytes();
    to->metadata_huge_pages = meta_huge_pages();
    to->resident = to->active + to->dirty + to->muzzy + to->metadata;
    to->mapped = sum->region_bytes + sum->huge_bytes + sum->huge_dirty_bytes + to->metadata;
    to->arenas = arena_numbers(arena_count());
    to->heaps = sum->heaps;
    to->threads = atomic_get(&heaps.in_use);
    to->mappings_made = atomic_get(&os_counts.maps);
    to->mappings_dropped = atomic_get(&os_counts.unmaps);
    to->mappings_moved = atomic_get(&os_counts.remaps);
    to->uptime = sum->uptime;
    for (unsigned i = 0; i < STATS_PROCESS_LOCKS; i++) {
        stats->locks[i] = figures_of_lock(process_lock_at(i));
    }
}

static void stats_read(struct stats *stats)
{
    for (struct heap *heap = heap_first(); heap != NULL; heap = heap_after(heap)) {
        if (heap_counts(stats, heap)) {
            add_counts(stats, heap);
        }
    }
    unsigned count = stats->is_folded ? arena_numbers(arena_count()) : stats->arena_count;
    for (unsigned i = 0; i < count; i++) {
        struct arena *arena = arena_numbered(i);
        if (arena != NULL) {
            read_arena(stats, arena);
        }
    }
    read_heaps(stats);
    stats_add_guarded(&stats->arenas[0]);
    for (unsigned class = 1; class < CLASSES; class ++) {
        derive_class(stats, class);
    }
    for (unsigned class = 0; class < LARGE_CLASSES; class ++) {
        derive_large(stats, class);
    }
    for (unsigned i = 0; i < stats->arena_count; i++) {
        derive_arena(&stats->arenas[i]);
        join_arena(&stats->all, &stats->arenas[i]);
    }
    read_process(stats);
}

static struct stats *stats_open(void)
{
    thread_leave(thread_enter()); /* the child of a fork puts its heaps in order first */
    unsigned count = arena_numbers(arena_count());
    size_t size = sizeof(struct stats) + count * sizeof(struct stats_arena);
    struct stats *stats = os_map(NULL, align_up(size, os_page_size));
    if (stats == NULL) {
        return stats_open_folded();
    }
    stats->size = align_up(size, os_page_size);
    stats->arena_count = count;
    stats_read(stats);
    return stats;
}

/* For who finds no memory; one at a time. Never touched by others. */
static union {
    struct stats stats;
    char room[STATS_FOLDED_SIZE];
} stats_reserve;

static _Atomic int stats_reserve_owner; /* a process: the child of a fork finds its parent's */

static struct stats *stats_open_folded(void)
{
    int self = os_process_number();
    int owner = atomic_get(&stats_reserve_owner);
    if (owner == self || !atomic_replace(&stats_reserve_owner, &owner, self)) {
        return NULL;
    }
    memset(&stats_reserve, 0, sizeof stats_reserve);
    stats_reserve.stats.size = sizeof stats_reserve;
    stats_reserve.stats.arena_count = 1;
    stats_reserve.stats.is_folded = true;
    stats_read(&stats_reserve.stats);
    return &stats_reserve.stats;
}

static void stats_close(struct stats *stats)
{
    if (stats == &stats_reserve.stats) {
        atomic_set_release(&stats_reserve_owner, 0); /* pairs with the exchange that takes it */
    } else {
        os_unmap(stats, stats->size);
    }
}

__attribute__((no_sanitize("thread"))) static struct stats_heap stats_of_heap(struct heap *heap)
{
    struct stats_heap figures = {
        .arena = heap->arena != NULL ? heap->arena->index : 0,
        .is_used = heap->thread != NULL,
        .magazine_bytes = heap->magazine_bytes,
        .stacked_bytes = less(stack_pages_now(heap), atomic_get(&heap->robbed_pages))
                         << os_page_shift,
    };
    for (unsigned class = 1; class < CLASSES; class ++) {
        figures.fills += heap->counts[class].fills;
        figures.flushes += heap->counts[class].flushes;
        figures.remote_frees += heap->counts[class].sent;
    }
    return figures;
}

/* --- In jemalloc's words ---------------------------------------------------------------------- */

static unsigned stats_bin_class(unsigned bin)
{
    return bin + 1;
}

static size_t stats_bin_slab_size(unsigned class)
{
    return class_slab_pages(class, UINT32_MAX) << os_page_shift;
}

static uint64_t stats_bin_slots(unsigned class)
{
    return size_min(stats_bin_slab_size(class) / class_size(class), SLAB_SLOTS_MAX);
}

static uint64_t stats_bin_slabs(const struct stats_class *figures)
{
    uint64_t slots = stats_bin_slots(class_of(figures->size));
    return (figures->slots + slots - 1) / slots;
}

static uint64_t stats_bin_nonfull_slabs(const struct stats_class *figures)
{
    return size_min(figures->slabs_nonfull, stats_bin_slabs(figures));
}

static uint64_t stats_bin_nmalloc(const struct stats_class *figures)
{
    return figures->allocations + figures->slots_cached;
}
