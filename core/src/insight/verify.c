/* SPDX-License-Identifier: MIT
 *
 * Whether the heap is whole: every arena, and the calling thread's heap.
 */
#include "report.h"

bool mw_heap_is_valid(void)
{
    process_init();
    for (unsigned i = 0; i < arena_count(); i++) {
        struct arena *arena = arena_at(i);
        lock_take(&arena->lock);
        require(arena_is_valid(arena));
        lock_release(&arena->lock);
    }
    struct usage usage = usage_now(); /* requires that extents tile their regions */
    require(usage.slab_used_bytes <= usage.slab_bytes);
    require(usage.slab_bytes + usage.large_bytes + usage.retained_bytes <= usage.region_bytes);
    struct heap *heap = thread_enter();
    require(heap_check(heap));
    thread_leave(heap);
    return true;
}
