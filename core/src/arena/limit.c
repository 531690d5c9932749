/* SPDX-License-Identifier: MIT */
#include "limit.h"

#include "../memory/meta.h"

/* How often (ms) the cgroup's files are read where a limit is a share of it, some 40 us each time; and where
 * little room is left, which others in the cgroup, and the program by other ways than ours, may take. */
#define LOOK_MS 250u
#define LOOK_NARROW_MS 50u

/* How often the purge thread looks what the cgroup allows of CPUs where nothing else is read. */
#define LOOK_CPUS_MS 1000u

/* Little room is left where it is less than this, and memory is short at half of that: a quarter of the
 * limit, and of large limits what a process can fill in some pauses. */
#define NARROW_PART 4u
#define NARROW_MOST ((size_t)1 << 30)

static struct {
    struct lock lock;          /* held while an arena grows, where there is a limit */
    _Atomic size_t hard_pages; /* SIZE_MAX: none */
    _Atomic size_t soft_pages; /* SIZE_MAX: none */
    _Atomic bool is_pressed;   /* memory is short around the process */
    _Atomic bool
        is_short; /* more free memory should have gone than there is in arenas of threads */
    _Atomic bool is_narrow; /* little room is left in the cgroup */
    _Atomic uint64_t looked_ms;
    _Atomic unsigned cpus; /* 0: nobody has looked */
    _Atomic bool is_known; /* a look has seen all that there is of limits */
} memory_limit = {
    LOCK_INITIALIZER(LOCK_LIMIT), SIZE_MAX, SIZE_MAX, false, false, false, 0, 0, false};

/* Memory is short where threads of the cgroup waited for it for so much of the last ten seconds. */
#define PRESSURE_PERCENT 10u

static size_t limit_pages(enum option_id id, size_t of_group)
{
    long value = option(id);
    size_t bytes = value > 0 ? (size_t)value : SIZE_MAX;
    if (value < 0) {
        bytes = of_group != SIZE_MAX ? of_group / 100 * (size_t)-value : SIZE_MAX;
    }
    return bytes != SIZE_MAX ? bytes >> os_page_shift : SIZE_MAX;
}

/* Whether a limit is a share of the cgroup's, whose files are read for that. */
static bool limit_is_share(void)
{
    return option(OPTION_memory_limit) < 0 || option(OPTION_memory_soft_limit) < 0;
}

static void limit_set(size_t of_group)
{
    size_t hard = limit_pages(OPTION_memory_limit, of_group);
    size_t soft = limit_pages(OPTION_memory_soft_limit, of_group);
    if (hard != SIZE_MAX && option(OPTION_memory_soft_limit) == 0) {
        soft = hard / 10 * 9;
    }
    atomic_set(&memory_limit.hard_pages, hard);
    atomic_set(&memory_limit.soft_pages, size_min(soft, hard));
}

static size_t limit_bytes(void)
{
    size_t pages = atomic_get(&memory_limit.hard_pages);
    return pages != SIZE_MAX ? pages << os_page_shift : SIZE_MAX;
}

/* A hard limit is a soft one as well. */
static bool limit_is_set(void)
{
    return atomic_get(&memory_limit.soft_pages) != SIZE_MAX;
}

/* What cannot be read any more (there is no descriptor left, or the program has another root) is not gone: then the limits
 * stay what they were when all could be. Where that was never so they are what can be read, and stay where nothing can. */
static void limit_apply(const struct memory_of_group *group)
{
    bool is_known = group->is_seen && !group->is_cut;
    bool says_more = group->is_seen || !limit_is_set();
    if (is_known || (!atomic_get(&memory_limit.is_known) && says_more)) {
        limit_set(group->limit);
        atomic_set(&memory_limit.is_known, is_known);
    }
    size_t narrow = size_min(group->limit / NARROW_PART, NARROW_MOST);
    atomic_set(&memory_limit.is_narrow, group->room < narrow);
    atomic_set(&memory_limit.is_pressed,
               group->pressure_percent >= PRESSURE_PERCENT || group->room < narrow / 2);
}

static void limit_look(void)
{
    struct memory_of_group group = {SIZE_MAX, SIZE_MAX, 0, true, false};
    if (limit_is_share()) {
        group = os_cgroup_memory();
        atomic_set(&memory_limit.cpus, os_cpu_count());
    }
    limit_apply(&group);
}

static void limit_look_at_cpus(uint64_t now_ms)
{
    if (!limit_is_share() && !os_is_confined() &&
        now_ms >= atomic_get(&memory_limit.looked_ms) + LOOK_CPUS_MS) {
        atomic_set(&memory_limit.looked_ms, now_ms);
        atomic_set(&memory_limit.cpus, os_cpu_count());
    }
}

static unsigned limit_cpus(void)
{
    return atomic_get(&memory_limit.cpus);
}

/* --- What is held ----------------------------------------------------------------------------- */

/* In pages. */
struct holding {
    size_t all;
    size_t free; /* of them, what can go back to the kernel at once */
};

static struct holding holding_now(void)
{
    struct holding now = {.all = meta_bytes() >> os_page_shift};
    for (unsigned i = 0; i < arenas_ever(); i++) {
        struct arena *arena = arena_ever_at(i);
        lock_take(&arena->lock);
        size_t free = arena->dirty.pages + arena->huge.pages + arena->muzzy.pages;
        now.free += free;
        now.all += (arena->region_bytes >> os_page_shift) - arena->retained.pages +
                   arena->huge_active_pages + arena->huge.pages;
        lock_release(&arena->lock);
    }
    return now;
}

/* Gives back `pages` of what is free in arenas of threads, or all there is: others may call hooks, which
 * may allocate. Returns how many went. */
static size_t give_back(size_t pages)
{
    size_t gone = 0;
    for (unsigned i = 0; i < arena_count() && gone < pages; i++) {
        struct arena *arena = arena_at(i);
        lock_take(&arena->lock);
        size_t dirty = arena->dirty.pages + arena->huge.pages;
        lock_release(&arena->lock);
        size_t wanted = pages - gone;
        gone += arena_purge(arena, dirty > wanted ? dirty - wanted : 0);
    }
    return gone;
}

/* --- Growth ----------------------------------------------------------------------------------- */

static bool limit_enter(size_t pages)
{
    if (likely(!limit_is_set())) {
        return true;
    }
    lock_take(&memory_limit.lock);
    size_t wanted = holding_now().all + pages;
    size_t soft = atomic_get(&memory_limit.soft_pages);
    if (wanted > soft) {
        wanted -= size_min(give_back(wanted - soft), wanted);
    }
    bool fits = wanted <= atomic_get(&memory_limit.hard_pages);
    if (!fits) {
        lock_release(&memory_limit.lock);
    }
    return fits;
}

static void limit_leave(void)
{
    /* Whether there is a limit may have changed since limit_enter: another thread looks at the cgroup. */
    if (unlikely(lock_is_mine(&memory_limit.lock))) {
        lock_release(&memory_limit.lock);
    }
}

static bool limit_is_short(void)
{
    return atomic_get(&memory_limit.is_short);
}

static bool limit_allows(size_t size)
{
    return size >> os_page_shift <= atomic_get(&memory_limit.hard_pages);
}

/* --- Time ------------------------------------------------------------------------------------- */

/* Free memory may fill half of the room that what is in use leaves below the soft limit; none of it where
 * memory is short. */
static bool limit_is_watched(void)
{
    return limit_is_share() || limit_is_set();
}

static void limit_tick(uint64_t now_ms)
{
    /* Where the kernel is asked no more the last limits stay; whether memory is short is not known then. */
    bool may_look = limit_is_share() && !os_is_confined();
    uint64_t pause = atomic_get(&memory_limit.is_narrow) ? LOOK_NARROW_MS : LOOK_MS;
    if (may_look && now_ms >= atomic_get(&memory_limit.looked_ms) + pause) {
        atomic_set(&memory_limit.looked_ms, now_ms);
        limit_look();
    }
    bool is_pressed = atomic_get(&memory_limit.is_pressed) && !os_is_confined();
    if (!limit_is_set() && !is_pressed) {
        atomic_set(&memory_limit.is_short, false);
        return;
    }
    size_t soft = atomic_get(&memory_limit.soft_pages);
    struct holding now = holding_now();
    size_t in_use = now.all - size_min(now.free, now.all);
    size_t may_stay = soft > in_use && !is_pressed ? (soft - in_use) / 2 : 0;
    size_t should_go = now.free > may_stay ? now.free - may_stay : 0;
    atomic_set(&memory_limit.is_short, give_back(should_go) < should_go);
}
