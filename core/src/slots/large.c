/* SPDX-License-Identifier: MIT */
#include "large.h"

/* Blocks that realloc makes at least this large move into a mapping of their own, which the kernel
 * grows by moving page tables. */
#define MOVE_MIN (1 * MiB)

/* A block that is a mapping of its own is copied up to this size, and only if it grows by at least this share of its
 * size: a block that grows in many small steps would be copied at each of them. */
#define GROWTH_COPY_MAX (64 * MiB)
#define GROWTH_STEP_SHARE 3u

/* Blocks below this size are cleared by memset: a system call costs as much. */
#define SPARSE_MIN (1 * MiB)

/* Where a block is looked at, and how many pages each time. */
#define SPARSE_PROBES 4u
#define SPARSE_PROBE_PAGES 16u

static void large_note_list(struct extent *extent)
{
    unsigned class = page_class_below(extent_pages(extent));
    bool is_plain = atomic_get(&extent->owner) == OWNER_NOT_A_SLAB && !extent->is_huge;
    if (is_plain && page_class_is_listed(class)) {
        pagemap_set_list(extent->start, GRANULE, extent, block_class_of(class));
    } else {
        pagemap_set(extent->start, extent);
    }
}

/* What comes with growth goes back to the kernel when the block is freed, as the rest of it does, so it is paid
 * as well: a program that lets something grow again and again would have all of it brought anew each time. A
 * block that cannot pay moves to where it needs no guards. */
static bool large_pays_for_growth(struct extent *extent, size_t size)
{
    size_t paid = fence_price(extent_size(extent));
    return size > LARGE_MAX || fence_price(size) <= paid ||
           rate_pay(RATE_OF_BLOCKS, fence_price(size) - paid);
}

/* Of a block with guards. */
static bool large_try_resize_fence(struct arena *arena, struct extent *extent, size_t size)
{
    size_t pages = large_pages(size);
    if (size < strength.fence_min || pages > UINT32_MAX / 2) {
        return false;
    }
    if (pages > extent_pages(extent) && !fence_has_room(extent, pages)) {
        return large_pays_for_growth(extent, size) && arena_try_move(arena, extent, pages);
    }
    /* A block that cannot become smaller stays as it is. */
    return pages == extent_pages(extent) || arena_try_resize_fenced(arena, extent, pages) ||
           pages < extent_pages(extent);
}

/* Whether a block has no guards, but would have some if it were allocated with another size. */
static bool large_wants_fence(struct extent *extent, size_t size)
{
    return fence_is_due(size) && large_pages(size) > extent_pages(extent) &&
           atomic_get(&extent->owner) != OWNER_DIRECT;
}

/* Whether a block that cannot grow where it is is copied into free memory that is resident: a mapping of its own
 * would grow beside that, page by page, each time that a program lets something grow. Blocks that are mostly
 * untouched are cheaper to move, and so are those that are larger than what is worth a copy. Where blocks have guards
 * nobody else would take a mapping without any when it is free. */
static bool large_is_better_copied(struct arena *arena, struct extent *extent, size_t pages)
{
    size_t old_pages = extent_pages(extent);
    if (MW_FENCES) {
        return !extent->is_huge && !large_is_sparse(extent);
    }
    size_t room = pages;
    if (extent->is_huge) {
        if (pages << os_page_shift > GROWTH_COPY_MAX) {
            return false;
        }
        /* One that grows in small steps is copied where it has room for many of them. */
        room = pages - old_pages >= old_pages / GROWTH_STEP_SHARE ? pages : 2 * pages;
    }
    return arena_has_huge_room(arena, room) && !large_is_sparse(extent);
}

static bool large_try_grow(struct arena *arena, struct extent *extent, size_t size)
{
    size_t pages = large_rounded_pages(size);
    check(pages >= large_pages(size) && pages > extent_pages(extent));
    if (pages > UINT32_MAX) {
        return false;
    }
    if (arena_try_expand(arena, extent, pages)) {
        return true;
    }
    if (!extent->is_huge && (size < MOVE_MIN || extent_size(extent) < MOVE_MIN / 2)) {
        return false;
    }
    if (large_is_better_copied(arena, extent, pages)) {
        return false;
    }
    return arena_try_move(arena, extent, pages);
}

static bool large_try_resize(struct extent *extent, size_t size)
{
    check(extent_state(extent) == EXTENT_ACTIVE && !extent_is_slab(extent));
    struct arena *arena = arena_of(extent);
    if (extent_has_fence(extent)) {
        return large_try_resize_fence(arena, extent, size);
    }
    if (large_wants_fence(extent, size)) {
        return false;
    }
    size_t pages = large_rounded_pages(size);
    size_t old_pages = extent_pages(extent);
    if (large_pages(size) > old_pages) {
        bool is_grown = large_try_grow(arena, extent, size);
        large_note_list(extent);
        return is_grown;
    }
    if (pages < old_pages) {
        /* A block that no longer needs a mapping of its own moves, so that it does not pin one. */
        if (extent->is_huge && size < MOVE_MIN / 2) {
            return false;
        }
        arena_shrink(arena, extent, pages);
        large_note_list(extent);
    }
    check(extent_size(extent) >= size);
    return true;
}

static bool large_try_resize_in_place(struct extent *extent, size_t size)
{
    check(extent_state(extent) == EXTENT_ACTIVE && !extent_is_slab(extent));
    if (size <= SLOT_MAX || large_pages(size) > UINT32_MAX) {
        return false;
    }
    struct arena *arena = arena_of(extent);
    if (extent_has_fence(extent)) {
        return large_pages(size) == extent_pages(extent) ||
               arena_try_resize_fenced(arena, extent, large_pages(size)) ||
               large_pages(size) < extent_pages(extent);
    }
    if (large_pages(size) > extent_pages(extent)) {
        bool is_grown = arena_try_expand(arena, extent, large_rounded_pages(size));
        large_note_list(extent);
        return is_grown;
    }
    if (large_rounded_pages(size) < extent_pages(extent)) {
        arena_shrink(arena, extent, large_rounded_pages(size));
        large_note_list(extent);
    }
    return true;
}

/* How many pages are resident of those that are looked at. */
static size_t large_probe(struct extent *extent)
{
    size_t pages = extent_pages(extent);
    size_t resident = 0;
    for (size_t i = 0; i < SPARSE_PROBES; i++) {
        size_t first = i * ((pages - SPARSE_PROBE_PAGES) / (SPARSE_PROBES - 1));
        resident +=
            os_resident_pages((char *)extent->start + (first << os_page_shift), SPARSE_PROBE_PAGES);
    }
    return resident;
}

/* Whether a large block can be looked at, and is large enough for that. */
static bool large_may_be_probed(struct extent *extent)
{
    return option(OPTION_ask_resident) && extent_size(extent) >= SPARSE_MIN &&
           extent_pages(extent) >= SPARSE_PROBES * SPARSE_PROBE_PAGES;
}

static bool large_is_sparse(struct extent *extent)
{
    check(extent_state(extent) == EXTENT_ACTIVE && !extent_is_slab(extent));
    return large_may_be_probed(extent) &&
           large_probe(extent) < SPARSE_PROBES * SPARSE_PROBE_PAGES / 4;
}

/* Behind a block that was not scattered so many are not looked at, twice as many each time. */
#define SCATTERED_PAUSE 8u
#define SCATTERED_PAUSE_MOST 1024u

/* Of what is looked at: with fewer pages resident too little would come back, with more than half too much would
 * have to be faulted in again. */
#define SCATTERED_LEAST 3u

static void large_leave_scattered(struct extent *extent)
{
    static _Atomic uint32_t left; /* not looked at; of threads that come together one counts */
    static _Atomic uint32_t pause = SCATTERED_PAUSE;
    check(extent_state(extent) == EXTENT_ACTIVE && extent->is_huge);
    uint32_t before = atomic_get(&left);
    if (likely(before != 0)) {
        atomic_set(&left, before - 1);
        return;
    }
    size_t looked = SPARSE_PROBES * SPARSE_PROBE_PAGES;
    size_t resident = large_may_be_probed(extent) ? large_probe(extent) : 0;
    if (resident < SCATTERED_LEAST || resident > looked / 2) {
        atomic_set(&left, atomic_get(&pause));
        atomic_set(&pause, (uint32_t)size_min(2 * atomic_get(&pause), SCATTERED_PAUSE_MOST));
        return;
    }
    atomic_set(&pause, SCATTERED_PAUSE);
    if (rate_pay(RATE_OF_SCATTERED, extent_size(extent) / looked * resident)) {
        os_purge((void *)extent->start, extent_size(extent));
    }
}
