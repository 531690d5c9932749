/* SPDX-License-Identifier: MIT */
#include "guarded.h"

#include "../memory/meta.h"
#include "../profile/unwind.h"
#include "../settings/options.h"

/* Calls that are kept of a stack. */
#define GUARDED_FRAMES 32u

enum guarded_state { GUARDED_NEVER, GUARDED_LIVE, GUARDED_FREED };

/* Who allocated or freed a block. Written by that thread; read by a report, at any time. */
struct guarded_calls {
    _Atomic uint32_t count; /* atomic: frames that are written */
    uint32_t thread;
    uintptr_t frames[GUARDED_FRAMES];
};

/* From the place's leaving the queue until it is LIVE, and from the free that makes it FREED until it is in the
 * queue again, it is the calling thread's. */
struct guarded_place {
    _Atomic uint32_t state;  /* atomic: enum guarded_state; from LIVE on under the lock */
    _Atomic uintptr_t block; /* atomic; what is known of the last block, see state */
    _Atomic size_t size;     /* atomic */
    _Atomic size_t open;     /* atomic; bytes of its pages, more than it needs if it shrank */
    uint8_t class;           /* who holds the place */
    uint8_t ways;            /* who holds the place: of os_guard */
    struct guarded_calls allocated;
    struct guarded_calls freed;
};

/*   places that no block is in == queue_count, but for those that a thread works on
 *   queue[(queue_first + i) % count], i < queue_count: the longest free first */
struct guarded_pool {
    struct extent extent;         /* what the page map says of all that lies here */
    uintptr_t start;              /* const; the first guard page */
    uintptr_t end;                /* const; behind the last */
    size_t stride;                /* const; from place to place, a page of which is a guard */
    uint32_t count;               /* const */
    uint32_t queue_first;         /* lock: guarded */
    _Atomic uint32_t queue_count; /* lock: guarded */
    uint16_t *queue;              /* lock: guarded */
    struct guarded_place *places; /* const; the places themselves: see there */
    uint64_t given[CLASSES];      /* lock: guarded; blocks, by class */
    uint64_t held[CLASSES];       /* lock: guarded */
    size_t active_pages;          /* lock: guarded */
};

static struct lock guarded_lock = LOCK_INITIALIZER(LOCK_GUARDED);
static struct guarded_pool *_Atomic guarded_pool_made; /* atomic; NULL: no block was guarded yet */
static _Atomic bool guarded_is_begun; /* atomic; somebody makes the places, or did */

ALWAYS_INLINE struct guarded_pool *guarded_places(void)
{
    return atomic_get_acquire(&guarded_pool_made); /* pairs with guarded_begin */
}

/* --- Places ----------------------------------------------------------------------------------- */

static uintptr_t place_start(const struct guarded_place *place)
{
    size_t index = (size_t)(place - guarded_places()->places);
    return guarded_places()->start + index * guarded_places()->stride + os_page_size;
}

static struct zones place_zones(const struct guarded_place *place)
{
    uintptr_t start = place_start(place);
    uintptr_t block = atomic_get(&place->block);
    size_t size = atomic_get(&place->size);
    uintptr_t end = start + atomic_get(&place->open);
    check(start <= block && block + size <= end);
    return (struct zones){(unsigned char *)start, (unsigned char *)block,
                          (unsigned char *)(block + size), (unsigned char *)end};
}

/* How far an address is from the last block of a place. */
static size_t place_distance(const struct guarded_place *place, uintptr_t address)
{
    uintptr_t block = atomic_get(&place->block);
    uintptr_t end = block + atomic_get(&place->size);
    return address < block ? block - address : address >= end ? address - end : 0;
}

/* The place that an address is in; NULL if it is in a guard page. */
static struct guarded_place *place_at(uintptr_t address)
{
    struct guarded_pool *pool = guarded_places();
    check(address >= pool->start && address < pool->end);
    size_t distance = address - pool->start;
    size_t index = distance / pool->stride;
    bool is_guard = distance % pool->stride < os_page_size;
    return is_guard || index >= pool->count ? NULL : &pool->places[index];
}

/* The place whose block an access was about: the one that it lies on the pages of, or the nearest; of two,
 * one whose block is held. NULL if there was no block near. */
static struct guarded_place *place_around(uintptr_t address)
{
    struct guarded_pool *pool = guarded_places();
    size_t index = (address - pool->start) / pool->stride;
    struct guarded_place *nearest = NULL;
    size_t nearest_distance = pool->stride;
    struct guarded_place *at = place_at(address);
    if (at != NULL && atomic_get(&at->state) != GUARDED_NEVER &&
        address - place_start(at) < atomic_get(&at->open)) {
        return at;
    }
    for (size_t i = index != 0 ? index - 1 : 0; i <= index + 1 && i < pool->count; i++) {
        struct guarded_place *place = &pool->places[i];
        uint32_t state = atomic_get_acquire(&place->state); /* pairs with guarded_take */
        size_t distance = place_distance(place, address);
        distance += state == GUARDED_FREED ? pool->stride / 2 : 0;
        if (state != GUARDED_NEVER && distance < nearest_distance) {
            nearest = place;
            nearest_distance = distance;
        }
    }
    return nearest;
}

/* --- Reports ---------------------------------------------------------------------------------- */

static void calls_note(struct guarded_calls *calls)
{
    atomic_set(&calls->count, 0);
    calls->thread = (uint32_t)libc_thread_number();
    size_t count = unwind_sample(calls->frames, GUARDED_FRAMES, NULL);
    atomic_set_release(&calls->count, (uint32_t)count); /* pairs with calls_noted */
}

static struct fault_stack calls_noted(struct guarded_calls *calls)
{
    uint32_t count = atomic_get_acquire(&calls->count); /* pairs with calls_note */
    return (struct fault_stack){calls->thread, count, calls->frames};
}

static COLD void place_describe(struct guarded_place *place, struct fault *fault, char *who)
{
    bool is_live = atomic_get_acquire(&place->state) == GUARDED_LIVE; /* pairs with guarded_take */
    fault->block = atomic_get(&place->block);
    fault->size = atomic_get(&place->size);
    fault->state = is_live ? "live" : "freed";
    fault->allocated = calls_noted(&place->allocated);
    if (!is_live) {
        fault->freed = calls_noted(&place->freed);
    }
    blame_who(fault, who);
}

/* Returns if the address is none of ours, or may be accessed by now, or lies in a block of the program's. */
static void guarded_trap(const struct trap *trap)
{
    struct guarded_pool *pool = guarded_places();
    if (pool == NULL || trap->address < pool->start || trap->address >= pool->end) {
        trap_elsewhere(trap);
        return;
    }
    struct guarded_place *place = place_around(trap->address);
    if (place != NULL) {
        struct fault fault = {.kind = FAULT_OUT_OF_BOUNDS};
        char who[BLAME_WHO];
        place_describe(place, &fault, who);
        if (!access_is_inside(&fault, trap->address)) {
            blame_access(&fault, who, trap);
        }
    }
}

_Noreturn static COLD void guarded_bad(const char *call, const void *pointer)
{
    struct guarded_place *place = place_around((uintptr_t)pointer);
    if (place != NULL) {
        struct fault fault = {.call = call, .pointer = pointer};
        char who[BLAME_WHO];
        place_describe(place, &fault, who);
        blame_pointer(&fault, who);
    }
    fault_simple(FAULT_INVALID_FREE, call, pointer, "%s of %p, which is in free memory", call,
                 pointer);
}

static void place_check(struct guarded_place *place, const char *call)
{
    struct zones zones = place_zones(place);
    if (unlikely(!zones_are_whole(&zones))) {
        struct fault fault = {.call = call, .pointer = zones.block};
        char who[BLAME_WHO];
        place_describe(place, &fault, who);
        fault.state = "live";
        blame_zones(&fault, who, &zones);
    }
}

/* The place of a block that the program holds. */
static struct guarded_place *place_of_held(const char *call, const void *block)
{
    struct guarded_place *place = place_at((uintptr_t)block);
    if (unlikely(place == NULL || atomic_get(&place->state) != GUARDED_LIVE ||
                 atomic_get(&place->block) != (uintptr_t)block)) {
        guarded_bad(call, block);
    }
    return place;
}

/* --- Blocks ----------------------------------------------------------------------------------- */

/* All of them without access. NULL if there is no room. */
static struct guarded_pool *pool_make(uint32_t count)
{
    size_t stride = os_page_size + align_up(SLOT_MAX, os_page_size);
    size_t bytes = count * stride + os_page_size;
    struct guarded_pool *pool = meta_alloc(sizeof *pool);
    struct guarded_place *places = meta_alloc(count * sizeof *places);
    uint16_t *queue = meta_alloc(count * sizeof *queue);
    char *start = os_map(NULL, bytes);
    unsigned ways = start != NULL ? os_guard(start, bytes) : 0;
    if (pool == NULL || places == NULL || queue == NULL || ways == 0 ||
        !pagemap_cover((uintptr_t)start, bytes)) {
        if (start != NULL) {
            os_unmap(start, bytes);
        }
        return NULL;
    }
    *pool = (struct guarded_pool){.start = (uintptr_t)start,
                                  .end = (uintptr_t)start + bytes,
                                  .stride = stride,
                                  .count = count,
                                  .queue_count = count,
                                  .queue = queue,
                                  .places = places};
    for (uint32_t i = 0; i < count; i++) {
        queue[i] = (uint16_t)i;
        places[i].ways = (uint8_t)ways;
    }
    struct extent *extent = &pool->extent;
    extent->start = pool->start;
    extent->is_huge = true;
    atomic_set(&extent->pages, (uint32_t)(bytes >> os_page_shift));
    extent_make_plain(extent);
    atomic_set(&extent->owner, OWNER_GUARDED);
    atomic_set(&extent->state, EXTENT_ACTIVE);
    pagemap_set_range(pool->start, bytes, extent);
    return pool;
}

/* The places are made for the first block: most processes end before that, and the kernel has to touch each
 * page of them. NULL if there are none, or another thread is about it. */
static struct guarded_pool *guarded_begin(void)
{
    struct guarded_pool *pool = guarded_places();
    if (likely(pool != NULL) || atomic_swap(&guarded_is_begun, true)) {
        return pool;
    }
    pool = pool_make((uint32_t)option(OPTION_guard_slots));
    if (pool == NULL && option(OPTION_guard_sample) > 0) {
        log_warn("guard_sample has no effect: there is no memory for its pages");
    }
    atomic_set_release(&guarded_pool_made, pool); /* pairs with guarded_places */
    return pool;
}

/* Whether each place is in the queue once at most, and none whose block the program holds. */
static bool guarded_queue_is_valid(void)
{
    struct guarded_pool *pool = guarded_places();
    uint32_t count = atomic_get(&pool->queue_count);
    check(lock_is_mine(&guarded_lock));
    for (uint32_t i = 0; i < count; i++) {
        uint16_t index = pool->queue[(pool->queue_first + i) % pool->count];
        require(index < pool->count);
        require(atomic_get(&pool->places[index].state) != GUARDED_LIVE);
        for (uint32_t other = 0; other < i; other++) {
            require(pool->queue[(pool->queue_first + other) % pool->count] != index);
        }
    }
    return count <= pool->count && pool->queue_first < pool->count;
}

/* The place that has been free for the longest time. */
static struct guarded_place *queue_take(void)
{
    struct guarded_pool *pool = guarded_places();
    struct guarded_place *place = NULL;
    lock_take(&guarded_lock);
    uint32_t count = atomic_get(&pool->queue_count);
    if (count != 0) {
        place = &pool->places[pool->queue[pool->queue_first]];
        pool->queue_first = (pool->queue_first + 1) % pool->count;
        atomic_set(&pool->queue_count, count - 1);
    }
    lock_release(&guarded_lock);
    return place;
}

static void queue_put_locked(struct guarded_place *place)
{
    struct guarded_pool *pool = guarded_places();
    uint32_t count = atomic_get(&pool->queue_count);
    check(lock_is_mine(&guarded_lock) && count < pool->count);
    check(atomic_get(&place->state) != GUARDED_LIVE);
    pool->queue[(pool->queue_first + count) % pool->count] = (uint16_t)(place - pool->places);
    atomic_set(&pool->queue_count, count + 1);
    check_slow(guarded_queue_is_valid());
}

static void place_count_locked(const struct guarded_place *place, bool is_held)
{
    struct guarded_pool *pool = guarded_places();
    unsigned class = place->class;
    /* With a canary the class may be a page more than the block: what is in use must not be more than there is. */
    size_t bytes = size_max(atomic_get(&place->open), align_up(class_size(class), os_page_size));
    size_t pages = bytes >> os_page_shift;
    check(lock_is_mine(&guarded_lock) && class < CLASSES);
    check(is_held || (pool->held[class] > 0 && pool->active_pages >= pages));
    pool->given[class] += is_held;
    pool->held[class] += is_held ? 1 : (uint64_t)-1;
    pool->active_pages += is_held ? pages : (size_t)-pages;
}

static NOINLINE void *guarded_take(size_t size, size_t alignment, unsigned class, bool at_end)
{
    check(size <= SLOT_MAX && is_power_of_two(alignment) && alignment <= os_page_size);
    struct guarded_pool *pool = guarded_begin();
    if (pool == NULL || atomic_get(&pool->queue_count) == 0) {
        return NULL;
    }
    struct guarded_place *place = queue_take();
    if (place == NULL) {
        return NULL;
    }
    uintptr_t start = place_start(place);
    size_t open = align_up(size_max(size, 1), os_page_size);
    bool is_open = os_unguard((void *)start, open, place->ways);
    if (is_open) {
        uintptr_t last = (start + open - size_max(size, 1)) & ~(alignment - 1);
        atomic_set(&place->block, at_end ? last : start);
        atomic_set(&place->size, size);
        atomic_set(&place->open, open);
        place->class = (uint8_t) class;
        struct zones zones = place_zones(place);
        zones_fill(&zones);
        atomic_set(&place->freed.count, 0);
        calls_note(&place->allocated);
        atomic_set_release(&place->state, GUARDED_LIVE); /* pairs with place_describe */
    }
    lock_take(&guarded_lock);
    if (is_open) {
        place_count_locked(place, true);
    } else {
        queue_put_locked(place);
    }
    lock_release(&guarded_lock);
    return is_open ? (void *)atomic_get(&place->block) : NULL;
}

static NOINLINE size_t guarded_free(void *block)
{
    struct guarded_place *place = place_of_held("free", block);
    size_t size = atomic_get(&place->size);
    place_check(place, "free");
    lock_take(&guarded_lock); /* no sweep meanwhile */
    bool is_held = atomic_get(&place->state) == GUARDED_LIVE;
    if (is_held) {
        place_count_locked(place, false);
        atomic_set(&place->state, GUARDED_FREED);
    }
    lock_release(&guarded_lock);
    if (unlikely(!is_held)) { /* another thread was faster */
        guarded_bad("free", block);
    }
    calls_note(&place->freed);
    trap_keep();
    /* Where the kernel refuses, stale pointers go unnoticed. */
    place->ways |= (uint8_t)os_guard((void *)place_start(place), atomic_get(&place->open));
    lock_take(&guarded_lock);
    queue_put_locked(place);
    lock_release(&guarded_lock);
    return size;
}

static COLD void guarded_shrink(void *block, size_t size)
{
    struct guarded_place *place = place_of_held("realloc", block);
    check(size <= atomic_get(&place->size));
    place_check(place, "realloc");
    lock_take(&guarded_lock); /* no sweep meanwhile */
    atomic_set(&place->size, size);
    struct zones zones = place_zones(place);
    zones_fill(&zones);
    lock_release(&guarded_lock);
}

static NOINLINE size_t guarded_size(const char *call, const void *block)
{
    return atomic_get(&place_of_held(call, block)->size);
}

static size_t guarded_size_around(const void *address)
{
    struct guarded_place *place = place_at((uintptr_t)address);
    bool is_held = place != NULL && atomic_get(&place->state) == GUARDED_LIVE &&
                   place_distance(place, (uintptr_t)address) == 0;
    return is_held ? atomic_get(&place->size) : 0;
}

static void guarded_sweep(void)
{
    struct guarded_pool *pool = guarded_places();
    if (!GUARDS_ARE_POSSIBLE || pool == NULL) {
        return;
    }
    lock_take(&guarded_lock); /* what is LIVE keeps its access */
    for (uint32_t i = 0; i < pool->count; i++) {
        struct guarded_place *place = &pool->places[i];
        if (atomic_get_acquire(&place->state) == GUARDED_LIVE) { /* pairs with guarded_take */
            place_check(place, "sweep");
        }
    }
    lock_release(&guarded_lock);
}

static bool guarded_read(struct guarded_figures *figures)
{
    struct guarded_pool *pool = guarded_places();
    if (!GUARDS_ARE_POSSIBLE || pool == NULL) {
        return false;
    }
    lock_take(&guarded_lock);
    memcpy(figures->given, pool->given, sizeof figures->given);
    memcpy(figures->held, pool->held, sizeof figures->held);
    figures->active = pool->active_pages << os_page_shift;
    lock_release(&guarded_lock);
    figures->mapped = pool->end - pool->start;
    return true;
}

/* --- Start ------------------------------------------------------------------------------------ */

static void guarded_load(void)
{
    long every = option(OPTION_guard_sample);
    bool is_asked_for = every > 0;
    every = every < 0 ? GUARD_EVERY : every;
    if (!GUARDS_ARE_POSSIBLE || every <= 0) {
        return;
    }
    if (option(OPTION_memory_limit) != 0) {
        if (is_asked_for) {
            log_warn("guard_sample has no effect where there is a memory_limit");
        }
        return;
    }
    profile_guard_every((uint64_t)every);
    trap_watch(guarded_trap);
}
