/* SPDX-License-Identifier: MIT */
#include "emptied.h"

/* A look at a region ends when so many slabs of it are on their way to the kernel: they are waited for. */
#define EMPTIED_BATCH 16u

/* Looks in a row, of which each has at most EMPTIED_BATCH calls to the kernel. */
#define LOOKS_MOST 16u

/* Between two walks over all regions it waits stack_age_ms, and twice as long after each that found
 * nothing, up to so many doublings. */
#define WAIT_DOUBLINGS_MOST 5u

/* Where the walk over all regions goes on; emptied_lock. */
static struct {
    _Atomic bool
        may_be_there; /* a slot came into an open slab since the last walk began; any thread */
    _Atomic bool is_walking;
    _Atomic uint64_t next_ms; /* no walk begins before */
    unsigned arena;
    unsigned region; /* of that arena's, by their order; one more or less on the way does no harm */
    bool has_found;  /* this walk found a slab to empty, or one whose thread does not rest yet */
    unsigned doublings;
} emptied;

static void emptied_note(struct extent *extent)
{
    if (!atomic_get(&emptied.may_be_there) && (atomic_get(&extent->remote) & INBOX_OPEN) != 0) {
        atomic_set(&emptied.may_be_there, true);
        free_news_note();
    }
}

static bool emptied_may_be_there(void)
{
    return atomic_get(&emptied.may_be_there) || atomic_get(&emptied.is_walking);
}

/* Which slabs count: those of heaps that rest for so long, by this clock. */
struct rest {
    uint64_t now_ms;
    uint64_t age_ms; /* 0: all */
};

static bool owner_rests(struct extent *extent, const struct rest *rest)
{
    struct heap *owner = atomic_get(&extent->owner);
    return owner != NULL && owner < OWNER_GUARDED &&
           (rest->age_ms == 0 || heap_is_at_rest(owner, rest->now_ms, rest->age_ms));
}

/* Marks up to EMPTIED_BATCH slabs of a region. Returns how many. */
static unsigned region_mark_locked(struct region *region, const struct rest *rest,
                                   struct extent **marked)
{
    unsigned count = 0;
    uintptr_t at = region->start;
    while (at < region->start + region->size && count < EMPTIED_BATCH) {
        struct extent *extent = pagemap_find((void *)at);
        require(extent != pagemap_nothing() && extent->start == at);
        at = extent_end(extent);
        if (!slab_seems_emptied(extent)) {
            continue; /* only slabs of small slots are ever open */
        }
        emptied.has_found = true;
        if (owner_rests(extent, rest) && slab_mark_emptied(extent)) {
            marked[count++] = extent;
        }
    }
    return count;
}

/* Empties up to EMPTIED_BATCH slabs of the region that is due, and goes on to the next one if there are no more. Adds
 * what it gave back to *bytes. False if there is no region left. */
static bool emptied_look(const struct rest *rest, size_t *bytes)
{
    struct extent *marked[EMPTIED_BATCH];
    check(lock_is_mine(&emptied_lock));
    if (emptied.arena >= arena_count()) {
        return false;
    }
    struct arena *arena = arena_at(emptied.arena);
    lock_take(&arena->lock);
    struct region *region = arena->regions;
    for (unsigned i = 0; i < emptied.region && region != NULL; i++) {
        region = region->next;
    }
    unsigned count = region != NULL ? region_mark_locked(region, rest, marked) : 0;
    lock_release(&arena->lock);
    unsigned purged = 0;
    for (unsigned i = 0; i < count; i++) {
        size_t size = slab_bytes(marked[i]);
        region_refuse_huge_pages(marked[i]->region);
        /* Where the kernel refuses it may have taken the pages in front of locked ones: the mark stays. */
        if (os_purge((void *)marked[i]->start, size)) {
            *bytes += size;
            purged++;
        }
    }
    if (region == NULL) {
        emptied.arena++;
        emptied.region = 0;
    } else if (purged < EMPTIED_BATCH) {
        emptied.region++; /* too if the kernel refuses: it would do so again */
    }
    return true;
}

static void walk_begin(void)
{
    emptied.arena = 0;
    emptied.region = 0;
    emptied.has_found = false;
    atomic_set(&emptied.is_walking, true);
    atomic_set(&emptied.may_be_there, false);
}

static void walk_end(uint64_t now_ms, uint64_t age_ms)
{
    emptied.doublings =
        emptied.has_found ? 0 : (unsigned)size_min(emptied.doublings + 1, WAIT_DOUBLINGS_MOST);
    atomic_set(&emptied.next_ms, now_ms + (age_ms << emptied.doublings));
    atomic_set(&emptied.is_walking, false);
    if (emptied.has_found) {
        atomic_set(&emptied.may_be_there, true);
    }
}

static void emptied_tick(uint64_t now_ms, uint64_t age_ms)
{
    bool is_walking = atomic_get(&emptied.is_walking);
    bool begins = atomic_get(&emptied.may_be_there) && now_ms >= atomic_get(&emptied.next_ms);
    if ((!is_walking && !begins) || !lock_try_take(&emptied_lock)) {
        return;
    }
    if (!atomic_get(&emptied.is_walking)) {
        walk_begin();
    }
    size_t bytes = 0;
    for (unsigned looks = 0; looks < LOOKS_MOST; looks++) {
        if (!emptied_look(&(struct rest){now_ms, age_ms}, &bytes)) {
            walk_end(now_ms, age_ms);
            break;
        }
    }
    lock_release(&emptied_lock);
}

static size_t emptied_purge_all(void)
{
    size_t bytes = 0;
    lock_take(&emptied_lock);
    walk_begin();
    while (emptied_look(&(struct rest){0, 0}, &bytes)) {
    }
    walk_end(0, 0);
    lock_release(&emptied_lock);
    return bytes;
}
