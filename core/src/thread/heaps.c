/* SPDX-License-Identifier: MIT */
#include "heaps.h"

#include "../arena/purge.h"
#include "../slots/direct.h"
#include "../slots/retired.h"
#include "delay.h"
#include "heap.h"
#include "held.h"
#include "stack.h"

static struct heap *heap_after(struct heap *heap)
{
    if (heap == &heap_shared) {
        return NULL;
    }
    return heap->next != NULL ? heap->next : &heap_shared;
}

static struct heap *heap_first(void)
{
    struct heap *heap = atomic_get_acquire(&heaps.all); /* pairs with heap_obtain */
    return heap != NULL ? heap : &heap_shared;
}

static void heap_reclaim(struct heap *heap)
{
    heap_collect(heap);
    retired_release_all();
    held_release_all();
    directs_give_back();
    for (struct heap *at = atomic_get_acquire(&heaps.all); at != NULL; at = at->next) {
        stack_rob(at);
    }
    for (unsigned i = 0; i < arena_count(); i++) {
        arena_purge(arena_at(i), 0);
        arena_unmap_free_regions(arena_at(i));
    }
}

static void heaps_empty_shared(void)
{
    if (MW_DELAY_FREE) {
        process_init();
        struct heap *shared = thread_enter_shared();
        delay_empty(shared);
        thread_leave(shared);
    }
}

static void heaps_check_shared(void)
{
    if (MW_DELAY_FREE && lock_try_take(&process.shared_lock)) {
        delay_check(&heap_shared);
        lock_release(&process.shared_lock);
    }
}

static bool heaps_have_unsettled(const void *slot)
{
    for (struct heap *heap = heap_first(); heap != NULL; heap = heap_after(heap)) {
        if (delay_has_unsettled(heap, slot)) {
            return true;
        }
    }
    return false;
}

static bool (*const slot_is_unsettled)(const void *) = heaps_have_unsettled;
