/* SPDX-License-Identifier: MIT
 *
 * stats.* of mallctl: figures of the moment when `epoch` was written last, found by stats_json.def.
 *
 * They lie in two copies, which are written in turn: readers take the one that was finished last,
 * without a lock, and look again if another has been finished meanwhile. A copy stays mapped for good,
 * so that a reader who is late reads old numbers and nothing worse. Who gathers holds no lock while
 * it does; the copy is put in its place under the lock of the process, which fork takes too. Of two
 * who gather at the same time the one who began later wins, so that what a thread did before it wrote
 * `epoch` is in what it reads.
 */
#define MW_NO_JEMALLOC_NAMES
#include "../../include/mallow/jemalloc.h"
#include "ctl_stats.h"

#include <errno.h>
#include <string.h>

static struct {
    _Atomic uint64_t epoch;    /* how often the program has been told new figures */
    _Atomic uint64_t begun;    /* how often somebody has begun to gather some */
    uint64_t latest;           /* lock: process; which of these is in place */
    _Atomic uint64_t finished; /* lock: process; copies written: the last is copies[finished % 2] */
    _Atomic(struct stats *) copies[2]; /* lock: process */
} ctl_stats;

/* --- Copies ----------------------------------------------------------------------------------- */

/* A copy with room for so many bytes. One that has become too small stays mapped, for a reader may be
 * in it; as room doubles, all that were ever too small are no larger than the last. */
static struct stats *copy_with_room(struct stats *copy, size_t size, struct stats *reserve)
{
    if (copy != NULL && copy->room >= size) {
        return copy;
    }
    size_t room = align_up(2 * size, os_page_size);
    copy = os_map(NULL, room);
    if (copy == NULL && size <= STATS_FOLDED_SIZE) {
        copy = reserve;
        room = STATS_FOLDED_SIZE;
    }
    if (copy != NULL) {
        copy->room = room;
    }
    return copy;
}

/* For copies where there is no memory. */
static union {
    struct stats stats;
    char room[STATS_FOLDED_SIZE];
} copy_reserves[2];

/* Readers of the copy before last see that there is a new one. */
__attribute__((no_sanitize("thread"))) static bool stats_put_locked(const struct stats *stats,
                                                                    uint64_t number)
{
    uint64_t next = atomic_get(&ctl_stats.finished) + 1;
    check(lock_is_mine(&process.lock));
    if (number < ctl_stats.latest) {
        return true; /* somebody who began later was faster */
    }
    struct stats *copy = copy_with_room(atomic_get(&ctl_stats.copies[next % 2]), stats->size,
                                        &copy_reserves[next % 2].stats);
    if (copy == NULL) {
        return false;
    }
    size_t room = copy->room;
    memcpy(copy, stats, stats->size);
    copy->room = room;
    atomic_set_release(&ctl_stats.copies[next % 2], copy); /* pairs with ctl_stats_read */
    ctl_stats.latest = number;
    atomic_set_release(&ctl_stats.finished, next); /* pairs with ctl_stats_read */
    return true;
}

/* Closes them. True too for a signal handler that interrupts one who is here already. */
static bool stats_put(struct stats *stats, uint64_t number)
{
    bool is_put = true;
    if (stats != NULL && !lock_is_mine(&process.lock)) {
        lock_take(&process.lock);
        is_put = stats_put_locked(stats, number);
        lock_release(&process.lock);
    }
    if (stats != NULL) {
        stats_close(stats);
    }
    return stats != NULL && is_put;
}

/* Where there is no memory for the figures of each arena, those of all stand with the first. Who finds somebody
 * else at that has the figures that there are. */
static int ctl_stats_refresh(void)
{
    uint64_t number = atomic_add(&ctl_stats.begun, 1) + 1;
    bool is_put = stats_put(stats_open(), number) || stats_put(stats_open_folded(), number);
    atomic_add(&ctl_stats.epoch, 1);
    return is_put || atomic_get(&ctl_stats.finished) != 0 ? 0 : EAGAIN;
}

static int ctl_stats_epoch(uint64_t *value)
{
    int error = atomic_get(&ctl_stats.epoch) == 0 ? ctl_stats_refresh() : 0;
    *value = atomic_get(&ctl_stats.epoch);
    return error;
}

/* --- Names that are one of several words ------------------------------------------------------ */

static const struct {
    char slot[10];
    char words[164];
} ctl_slots[] = {
    {"<mutex>", WORDS_MUTEX}, {"<lock>", WORDS_LOCK},   {"<counter>", WORDS_COUNTER},
    {"<hpa>", WORDS_HPA},     {"<slabs>", WORDS_SLABS},
};

static const char *ctl_slot_words(struct word slot)
{
    for (unsigned i = 0; i < array_count(ctl_slots); i++) {
        if (word_is(slot, ctl_slots[i].slot)) {
            return ctl_slots[i].words;
        }
    }
    return NULL;
}

static bool index_is_word(size_t index, const char *words)
{
    return index < 100 && word_at(words, (long)index).start != NULL;
}

/* --- Values ----------------------------------------------------------------------------------- */

/* Where in a MIB the arena stands, and the bin, the large size, the extents or the lock of it. */
enum { MIB_ARENA = 2, MIB_INNER = 4 };

/* The number of arenas stands for all of them, as in names of `arena`. */
static bool index_is_all(size_t index)
{
    return index == MALLCTL_ARENAS_ALL || index == arena_numbers(thread_arenas());
}

/* The figures of an arena, or of all; NULL if none had that index when they were gathered. */
static const struct stats_arena *arena_of_stats(const struct stats *stats, size_t index)
{
    if (index_is_all(index)) {
        return &stats->all;
    }
    bool is_made = index < stats->arena_count && stats->arenas[index].is_made;
    return is_made ? &stats->arenas[index] : NULL;
}

/* The first arena comes with the first figures. Readers look again, at the arenas of the figures that they read. */
static bool ctl_stats_has_arena(size_t index)
{
    return index == 0 || index_is_all(index) ||
           (index < ARENA_NUMBERS && arena_numbered((unsigned)index) != NULL);
}

static bool ctl_stats_has_index(enum ctl_group group, unsigned place, size_t index)
{
    if (place == MIB_ARENA) {
        return ctl_stats_has_arena(index);
    }
    switch (group) {
    case CTL_GROUP_STATS_LEXTENT:
        return index < STATS_LEXTENTS;
    case CTL_GROUP_STATS_EXTENT:
        return index < EXTENT_BINS;
    case CTL_GROUP_STATS_HPA:
        return index < STATS_HPA_LISTS;
    default:
        return index < STATS_BINS;
    }
}

#define CASE(id, value)    \
    case CTL_##id:         \
        *result = (value); \
        return 0;

static int total_read(const struct stats *stats, unsigned id, uint64_t *result)
{
    const struct stats_words whole = stats_words_of(stats, &stats->all), *words = &whole;
    switch (id) {
#define TOTAL(name, type, value) CASE(TOTAL_##name, value)
#define WORKER(name, type, value) CASE(WORKER_##name, value)
#include "stats_json.def"
    default:
        return ENOENT;
    }
}

static int bin_read(const struct stats_class *of, unsigned id, uint64_t *result)
{
    switch (id) {
#define BIN(name, type, value) CASE(BIN_##name, value)
#define BIN_HIDDEN BIN
#include "stats_json.def"
    default:
        return ENOENT;
    }
}

static int lextent_read(const struct stats_arena *arena, unsigned lextent, unsigned id,
                        uint64_t *result)
{
    const struct stats_large whole = stats_lextent(arena, lextent), *of = &whole;
    switch (id) {
#define LEXTENT(name, type, value) CASE(LEXTENT_##name, value)
#define LEXTENT_HIDDEN LEXTENT
#include "stats_json.def"
    default:
        return ENOENT;
    }
}

static int extents_read(const struct stats_extents *of, unsigned id, uint64_t *result)
{
    switch (id) {
#define EXTENT(name, type, value) CASE(EXTENT_##name, value)
#include "stats_json.def"
    default:
        return ENOENT;
    }
}

/* What an arena has one of. */
static int arena_figures_read(const struct stats *stats, const struct stats_arena *of, unsigned id,
                              uint64_t *result)
{
    const struct stats_words whole = stats_words_of(stats, of), *words = &whole;
    switch (id) {
        CASE(stats_uptime, of->figures.uptime)
        CASE(stats_dss, (uintptr_t) "disabled")
        CASE(stats_dirty_decay_ms, (uint64_t)stats_decay_ms(stats, of, true))
        CASE(stats_muzzy_decay_ms, (uint64_t)stats_decay_ms(stats, of, false))
#define ARENA(name, type, value) CASE(ARENA_##name, value)
#define ARENA_HIDDEN ARENA
#define SMALL(name, type, value) CASE(SMALL_##name, value)
#define LARGE(name, type, value) CASE(LARGE_##name, value)
#include "stats_json.def"
    default:
        return ENOENT;
    }
}

/* One of WORDS_COUNTER; what stands apart, because it is no uint64_t, comes after them. */
static int counter_read(const struct stats_lock *lock, size_t counter, uint64_t *result)
{
    const uint64_t values[] = {lock->operations,    lock->waits,     lock->spins,
                               lock->owner_changes, lock->wait_time, lock->wait_time_most,
                               lock->queue_most};
    static_assert(array_count(values) == COUNTERS + 1, "one for each word, and max_num_thds");
    *result = values[counter];
    return 0;
}

static int lock_read(const struct stats *stats, unsigned id, const size_t *mib, uint64_t *result)
{
    const struct stats_lock *lock;
    const struct stats_arena *of = NULL;
    size_t counter = COUNTERS;
    if (id == CTL_stats_mutex || id == CTL_stats_mutex_most) {
        lock = stats_global_mutex(stats, mib[2]);
        counter = id == CTL_stats_mutex ? mib[3] : counter;
    } else if ((of = arena_of_stats(stats, mib[MIB_ARENA])) == NULL) {
        return ENOENT;
    } else if (id == CTL_stats_lock || id == CTL_stats_lock_most) {
        lock = stats_arena_mutex(stats, of, mib[MIB_INNER]);
        counter = id == CTL_stats_lock ? mib[5] : counter;
    } else {
        lock = stats_bin_mutex(of, mib[MIB_INNER]);
        counter = id == CTL_stats_bin_lock ? mib[6] : counter;
    }
    bool is_apart =
        id == CTL_stats_mutex_most || id == CTL_stats_lock_most || id == CTL_stats_bin_lock_most;
    return lock != NULL && (counter < COUNTERS || is_apart) ? counter_read(lock, counter, result)
                                                            : ENOENT;
}

/* There is no page allocator of this kind here, so all is 0. */
static int hpa_read(unsigned id, const size_t *mib, uint64_t *result)
{
    bool is_list = id == CTL_stats_hpa_lists;
    bool is_counter = id == CTL_stats_hpa;
    size_t last = mib[is_counter ? 4 : is_list ? 6 : 5];
    *result = 0;
    return index_is_word(last, is_counter ? WORDS_HPA : WORDS_SLABS) &&
                   (!is_list || mib[5] < STATS_HPA_LISTS)
               ? 0
               : ENOENT;
}

static int of_arena_read(const struct stats *stats, enum ctl_group group, unsigned id,
                         const size_t *mib, uint64_t *result)
{
    const struct stats_arena *of = arena_of_stats(stats, mib[MIB_ARENA]);
    size_t inner = mib[MIB_INNER];
    if (of == NULL) {
        return ENOENT;
    }
    switch (group) {
    case CTL_GROUP_STATS_BIN:
        return inner < STATS_BINS
                   ? bin_read(&of->classes[stats_bin_class((unsigned)inner)], id, result)
                   : ENOENT;
    case CTL_GROUP_STATS_LEXTENT:
        return inner < STATS_LEXTENTS ? lextent_read(of, (unsigned)inner, id, result) : ENOENT;
    case CTL_GROUP_STATS_EXTENT:
        return inner < EXTENT_BINS ? extents_read(&of->extents[inner], id, result) : ENOENT;
    case CTL_GROUP_STATS_HPA:
        return hpa_read(id, mib, result);
    default:
        return arena_figures_read(stats, of, id, result);
    }
}

/* Of a copy that may be written to meanwhile: then what is read does not count. */
__attribute__((no_sanitize("thread"))) static int copy_read(const struct stats *stats,
                                                            enum ctl_group group, unsigned id,
                                                            const size_t *mib, uint64_t *result)
{
    switch (group) {
    case CTL_GROUP_STATS:
        return total_read(stats, id, result);
    case CTL_GROUP_STATS_LOCK:
        return lock_read(stats, id, mib, result);
    default:
        return of_arena_read(stats, group, id, mib, result);
    }
}

static int ctl_stats_read(enum ctl_group group, unsigned id, const size_t *mib, uint64_t *value)
{
    uint64_t finished = atomic_get_acquire(&ctl_stats.finished); /* pairs with stats_put_locked */
    if (finished == 0) {
        int error = ctl_stats_refresh();
        finished = atomic_get_acquire(&ctl_stats.finished); /* pairs with stats_put_locked */
        if (finished == 0) {
            return error != 0 ? error : EAGAIN;
        }
    }
    for (;;) {
        /* pairs with stats_put_locked */
        const struct stats *copy = atomic_get_acquire(&ctl_stats.copies[finished % 2]);
        int error = copy_read(copy, group, id, mib, value);
        atomic_thread_fence(memory_order_acquire); /* pairs with stats_put_locked */
        uint64_t now = atomic_get(&ctl_stats.finished);
        if (now == finished) {
            return error;
        }
        finished = now;
    }
}
