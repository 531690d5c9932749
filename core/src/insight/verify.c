/* SPDX-License-Identifier: MIT
 *
 * Whether the heap is whole: every arena, the calling thread's heap, and in secure and debug builds
 * what lies behind every block.
 */
#include "report.h"

#include "../os/memcheck.h"
#include "../slots/canary.h"
#include "../thread/delay.h"
#include "../thread/heap_valid.h"
#include "../thread/heaps.h"

/* What all heaps of an arena share: the slabs that none of them owns and that have free slots. */
static bool pool_is_valid(struct arena *arena)
{
    struct slab_pool *pool = slab_pool_at(arena);
    lock_take(&pool->lock);
    for (unsigned class = 0; class < CLASSES; class ++) {
        uint32_t count = 0;
        struct link *head = &pool->slabs[class];
        for (struct link *at = list_first(head); at != head; at = at->next) {
            struct extent *extent = slab_at(at);
            enum slab_place place = class_is_medium(class) ? SLAB_DEPOT : SLAB_SHARED;
            require(extent->slab.class == class && extent->slab.place == place);
            require(class_is_medium(class) ? depot_slab_is_valid(extent) : slab_is_valid(extent));
            require(!slab_is_full(extent));
            require(class_is_medium(class) || slab_used(extent) > 0); /* a new one is empty */
            count++;
        }
        require(count == atomic_get(&pool->count[class]));
        require(!class_is_medium(class) || depot_batches_are_valid(pool, class));
        for (unsigned kind = 0; kind < COMMON_KINDS; kind++) {
            struct link *common = &pool->common[kind][class];
            bool is_seen = (atomic_get(&pool->common_seen[kind]) >> class & 1) != 0;
            require(is_seen || list_is_empty(common));
            for (struct link *at = list_first(common); at != common; at = at->next) {
                require(slab_at(at)->common->list == common && common_is_valid(slab_at(at)));
            }
        }
    }
    lock_release(&pool->lock);
    return true;
}

/* --- Canaries --------------------------------------------------------------------------------- */

/* Another thread may be between two steps with a block: what is found so often is so. */
#define DAMAGE_LOOKS 100u

static bool slot_is_damaged(struct extent *extent, uint32_t index)
{
    if (!extent_is_slab(extent) || index >= extent->slab.capacity ||
        !slot_number_is_held(extent, index)) {
        return false;
    }
    const char *slot = (const char *)extent->start + (size_t)index * extent->slab.slot_size;
    size_t size = slot_block_size(extent, slot);
    if (size == 0) {
        return false;
    }
    /* A slot that its thread has just taken has no canary yet. */
    uint64_t canary = load_unaligned(slot + size - CANARY_BYTES);
    return canary != FILL_FREE_WORD && canary != FILL_NEW_WORD &&
           canary_read(extent, slot, size) == CANARY_DAMAGED;
}

_Noreturn static COLD void slot_damaged(struct extent *extent, uintptr_t slot)
{
    if (slot_is_unsettled((void *)slot)) {
        slot_bad_content("sweep", (void *)slot, slot_block_size(extent, (void *)slot));
    }
    canary_bad("mw_heap_is_valid", extent, (void *)slot);
}

/* The arena's lock is held: no page of its extents is unmapped. */
__attribute__((no_sanitize("thread"))) static void slab_verify_locked(struct extent *extent)
{
    for (uint32_t index = 0; index < extent->slab.capacity; index++) {
        unsigned looks = 0;
        while (slot_is_damaged(extent, index)) {
            if (++looks == DAMAGE_LOOKS) {
                slot_damaged(extent, extent->start + (uintptr_t)index * extent->slab.slot_size);
            }
            cpu_relax();
        }
    }
}

__attribute__((no_sanitize("thread"))) static void large_verify_locked(struct extent *extent)
{
    unsigned looks = 0;
    while (extent_state(extent) == EXTENT_ACTIVE && !extent_is_slab(extent) &&
           canary_large_size(extent) != 0 && canary_read_large(extent) == CANARY_DAMAGED) {
        if (++looks == DAMAGE_LOOKS) {
            canary_bad("mw_heap_is_valid", extent, (void *)extent->start);
        }
        cpu_relax();
    }
}

static void canaries_verify(struct arena *arena)
{
    lock_take(&arena->lock);
    for (struct region *region = arena->regions; region != NULL; region = region->next) {
        uintptr_t at = region->start;
        while (at < region->start + region->size) {
            struct extent *extent = pagemap_find((void *)at);
            at = extent_end(extent);
            if (extent_state(extent) != EXTENT_ACTIVE) {
                continue;
            }
            if (extent_is_slab(extent)) {
                slab_verify_locked(extent);
            } else {
                large_verify_locked(extent);
            }
        }
    }
    lock_release(&arena->lock);
}

bool mw_heap_is_valid(void)
{
    process_init();
    memcheck_enter();
    for (unsigned i = 0; i < arena_count(); i++) {
        struct arena *arena = arena_at(i);
        lock_take(&arena->lock);
        require(arena_is_valid(arena));
        lock_release(&arena->lock);
        require(!slab_pools_are_used() || pool_is_valid(arena));
        if (MW_CANARY) {
            canaries_verify(arena);
        }
    }
    directs_check();
    guarded_sweep();
    struct usage usage = usage_now(); /* requires that extents tile their regions */
    require(usage.slab_used_bytes <= usage.slab_bytes);
    require(usage.slab_bytes + usage.large_bytes + usage.retained_bytes <= usage.region_bytes);
    struct heap *heap = thread_enter();
    require(heap_check(heap));
    delay_check(heap);
    thread_leave(heap);
    heaps_check_shared();
    if (MW_TRACK) {
        tracked_sweep();
    }
    memcheck_leave();
    return true;
}

static bool (*const heap_check_all)(void) = mw_heap_is_valid;

/* --- The end of the program ------------------------------------------------------------------- */

/* Of the free slots in the lists of small classes so many bytes are looked at then, at most. */
#define LAST_LOOKS (128 * KiB)

#if MW_DELAY_FREE
/* One that was freed long ago may be deep in its list, and never be handed out again. */
static size_t list_look_at(struct slot *slot, unsigned class, size_t most)
{
    for (; slot != NULL && most >= class_size(class); most -= class_size(class)) {
        list_slot_check(slot, class);
        size_t size = slot_block_size(pagemap_find(slot), slot);
        if (!slot_link_is_plausible(slot) || !slot_fill_is_whole(slot, size, strength.look_whole)) {
            harden_bad_content("sweep", slot, size);
        }
        slot = slot_next(slot);
    }
    return most;
}

/* What a program wrote to blocks that it had freed. Only what is the calling thread's alone, or was the
 * last of threads that ended. */
DESTRUCTOR static void verify_at_exit(void)
{
    struct heap *heap = heap_self;
    if (heap == HEAP_NONE) {
        return;
    }
    delay_check(heap);
    heaps_check_shared();
    size_t most = LAST_LOOKS;
    for (unsigned class = 0; class < SMALL_CLASSES; class ++) {
        struct bin *bin = &heap->bins[class];
        most = list_look_at(heap->free[class], class, most);
        if (bin->current != NULL) {
            most = list_look_at(bin->current->slab.local, class, most);
        }
        struct link *head = &bin->ready;
        for (struct link *at = list_first(head); at != head && most >= class_size(class);
             at = at->next) {
            slab_close(slab_at(at));
            most = list_look_at(slab_at(at)->slab.local, class, most);
        }
    }
}
#endif
