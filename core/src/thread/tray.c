/* SPDX-License-Identifier: MIT */
#include "tray.h"

static struct lock rob_lock = LOCK_INITIALIZER(LOCK_ROB);
static struct lock tray_lock = LOCK_INITIALIZER(LOCK_TRAY);

/* What is much in all trays of a kind together, in equal parts, and in one of them at least. */
#define TRAYS_TOTAL (1280 * KiB)
#define TRAY_LEAST (128 * KiB)

static_assert(TRAYS_TOTAL / TRAY_UNIT < (1u << (64 - TRAY_ITEM_BITS)) / 4,
              "what is much is known long before the number wraps");
static_assert(SMALL_MAX % TRAY_UNIT == 0 && (SMALL_MAX + SMALL_MAX / 8) % TRAY_UNIT == 0,
              "medium slots are multiples of the unit");

static size_t tray_most_bytes(void)
{
    return size_max(TRAYS_TOTAL / arena_count(), TRAY_LEAST);
}

ALWAYS_INLINE void *tray_top(uint64_t tray)
{
    return (void *)(uintptr_t)(tray & (((uint64_t)1 << TRAY_ITEM_BITS) - 1));
}

ALWAYS_INLINE uint64_t tray_with(uint64_t old, void *item, uint64_t more)
{
    check((uintptr_t)item >> TRAY_ITEM_BITS == 0);
    return (uint64_t)(uintptr_t)item | ((old >> TRAY_ITEM_BITS) + more) << TRAY_ITEM_BITS;
}

static bool tray_put_slot(struct extent *extent, struct slot *slot)
{
    check(slab_is_of_depot(extent) && slab_has_slot(extent, slot));
    check(extent_arena(extent) < ARENAS_MAX && extent->slab.slot_size % TRAY_UNIT == 0);
    _Atomic uint64_t *tray = &trays[extent_arena(extent)].slots;
    uint64_t old = atomic_get(tray);
    uint64_t new;
    do {
        if (unlikely(tray_top(old) == slot)) {
            harden_bad_block("free", extent, slot); /* it would come behind itself */
        }
        slot_set_next(slot, tray_top(old));
        new = tray_with(old, slot, extent->slab.slot_size / TRAY_UNIT);
    } while (!atomic_replace(tray, &old, new)); /* pairs with tray_take_slots */
    free_news_note();
    return new >> TRAY_ITEM_BITS > tray_most_bytes() / TRAY_UNIT;
}

static bool tray_has_slots(struct arena *arena)
{
    return atomic_get(&trays[arena->index].slots) != 0;
}

UNUSED static size_t tray_slot_bytes(struct arena *arena)
{
    return (size_t)(atomic_get(&trays[arena->index].slots) >> TRAY_ITEM_BITS) * TRAY_UNIT;
}

static struct slot *tray_take_slots(struct arena *arena)
{
    check(lock_is_mine(&tray_lock));
    _Atomic uint64_t *tray = &trays[arena->index].slots;
    return atomic_get(tray) != 0 ? tray_top(atomic_swap(tray, 0))
                                 : NULL; /* pairs with tray_put_slot */
}

static struct slot *tray_first_slot(struct arena *arena)
{
    return tray_top(atomic_get(&trays[arena->index].slots));
}

static bool tray_put_pages(struct extent *extent)
{
    check(extent_state(extent) == EXTENT_CACHED && !extent->is_huge && !extent_is_slab(extent));
    check(extent_arena(extent) < ARENAS_MAX);
    _Atomic uint64_t *tray = &trays[extent_arena(extent)].pages;
    uint64_t old = atomic_get(tray);
    uint64_t new;
    do {
        check(tray_top(old) != extent);
        extent->slab.below = tray_top(old);
        new = tray_with(old, extent, extent_pages(extent));
    } while (!atomic_replace(tray, &old, new)); /* pairs with tray_take_pages */
    free_news_note();
    return new >> TRAY_ITEM_BITS > tray_most_bytes() >> os_page_shift;
}

static bool tray_has_pages(struct arena *arena)
{
    return atomic_get(&trays[arena->index].pages) != 0;
}

static struct extent *tray_take_pages(struct arena *arena)
{
    check(lock_is_mine(&rob_lock));
    _Atomic uint64_t *tray = &trays[arena->index].pages;
    return atomic_get(tray) != 0 ? tray_top(atomic_swap(tray, 0))
                                 : NULL; /* pairs with tray_put_pages */
}

static void trays_empty(void)
{
    for (unsigned i = 0; i < arena_count(); i++) {
        struct arena *arena = arena_at(i);
        if (tray_has_slots(arena) || depot_has_batches(arena)) {
            lock_take(&tray_lock);
            arena_free_chain(depot_put(tray_take_slots(arena)));
            struct slot *batch;
            while ((batch = depot_take_batch(arena)) != NULL) {
                arena_free_chain(depot_put(batch));
            }
            lock_release(&tray_lock);
        }
        if (tray_has_pages(arena)) {
            lock_take(&rob_lock);
            arena_free_chain(tray_take_pages(arena));
            lock_release(&rob_lock);
        }
    }
}
