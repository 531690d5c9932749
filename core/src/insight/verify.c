/* SPDX-License-Identifier: MIT
 *
 * Whether the heap is whole: every arena, and the calling thread's heap.
 */
#include "report.h"

#include "../thread/heap_valid.h"

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
        for (unsigned kind = 0; kind < COMMON_KINDS; kind++) {
            struct link *common = &pool->common[kind][class];
            for (struct link *at = list_first(common); at != common; at = at->next) {
                require(slab_at(at)->common->list == common && common_is_valid(slab_at(at)));
            }
        }
    }
    lock_release(&pool->lock);
    return true;
}

bool mw_heap_is_valid(void)
{
    process_init();
    for (unsigned i = 0; i < arena_count(); i++) {
        struct arena *arena = arena_at(i);
        lock_take(&arena->lock);
        require(arena_is_valid(arena));
        lock_release(&arena->lock);
        require(!slab_pools_are_used() || pool_is_valid(arena));
    }
    directs_check();
    struct usage usage = usage_now(); /* requires that extents tile their regions */
    require(usage.slab_used_bytes <= usage.slab_bytes);
    require(usage.slab_bytes + usage.large_bytes + usage.retained_bytes <= usage.region_bytes);
    struct heap *heap = thread_enter();
    require(heap_check(heap));
    thread_leave(heap);
    if (MW_TRACK) {
        tracked_sweep();
    }
    return true;
}

static bool (*const heap_check_all)(void) = mw_heap_is_valid;
