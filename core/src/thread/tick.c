/* SPDX-License-Identifier: MIT
 *
 * Time: what has to happen now and then, done by whoever calls the allocator. Where the hit path's
 * lists end, slots are counted, and after some hundred of them the clock is read, or after a few if
 * memory waits to go back.
 */
#include "heap.h"

/* Calls this far apart (ms) mean a program at rest, so many calls this close together a busy one. */
#define TICK_SLOW_MS 50
#define TICK_BUSY_MS 5
#define TICK_BUSY_CALLS 32u

/* Slots that are handed out between two looks at the clock: while free memory waits to go back, and
 * else. */
#define BUDGET_SHORT 32
#define BUDGET_LONG 512

/* So much free memory (bytes) that is still resident makes the lists short. */
#define DIRTY_PENDING (1 * MiB)

/* How often (ms) empty slabs and old cached blocks go back to the arenas, at the least. */
#define SWEEP_MS 500

/* What all heaps share. Initialised data, for the same reason as `process` in thread.c. */
static struct heaps heaps = {.sweep = 1};

/* The part of a tick that concerns all threads; one of them does it. */
static void global_tick(uint64_t now_ms)
{
    uint64_t last = atomic_get(&heaps.tick_ms);
    if (now_ms < last + 10 || !atomic_replace(&heaps.tick_ms, &last, now_ms) || last == 0) {
        return; /* done, somebody else does it, or the program has just begun */
    }
    size_t dirty = 0;
    for (unsigned i = 0; i < arena_count(); i++) {
        dirty += arena_tick(arena_at(i), now_ms);
    }
    atomic_set(&heaps.dirty_pending, dirty << os_page_shift > DIRTY_PENDING);
}

/* Hands all but a few ready slabs to whoever needs them: the thread may sleep from now on. */
static void heap_share_surplus(struct heap *heap)
{
    for (uint64_t left = heap->bins_used; left != 0; left &= left - 1) {
        struct bin *bin = &heap->bins[__builtin_ctzl(left)];
        struct link *at = list_first(&bin->ready);
        for (unsigned kept = 0; kept < READY_TRIES && at != &bin->ready; kept++) {
            at = at->next;
        }
        while (at != &bin->ready) {
            struct extent *extent = slab_at(at);
            at = at->next;
            heap_unlist(heap, extent);
            heap_abandon_slab(heap, extent);
        }
    }
}

static void heap_sweep(struct heap *heap, uint64_t now_ms)
{
    heap->sweep_ms = now_ms;
    heap_flush_outboxes(heap);
    heap_release_empty(heap);
    heap_share_surplus(heap);
    uint32_t sweep = atomic_get(&heaps.sweep);
    for (struct heap *at = atomic_get_acquire(&heaps.all); at != NULL; at = at->next) {
        heap_rob_cache(at, sweep, false);
    }
    atomic_set(&heaps.sweep, sweep + 1);
}

/* How long the lists are, and how soon the clock is read again. */
static void heap_set_pace(struct heap *heap)
{
    bool is_pending =
        atomic_get(&heaps.dirty_pending) || heap->released_ms == atomic_get(&heaps.tick_ms);
    heap->list_max = is_pending ? HEAP_LIST_SHORT : HEAP_LIST_MAX;
    heap->budget = heap->is_slow ? 0 : is_pending ? BUDGET_SHORT : BUDGET_LONG;
}

static void heap_tick(struct heap *heap)
{
    uint64_t now_ms = os_now_ms();
    bool is_first = heap->tick_ms == 0;
    uint64_t elapsed = is_first ? 0 : now_ms - heap->tick_ms;
    heap->tick_ms = now_ms;
    if (elapsed >= TICK_SLOW_MS) {
        heap->is_slow = true;
        heap->busy_calls = 0;
        heap_return_lists(heap);
    } else if (heap->is_slow && elapsed < TICK_BUSY_MS) {
        heap->is_slow = ++heap->busy_calls < TICK_BUSY_CALLS;
    }
    if (elapsed != 0) {
        long decay_ms = option(OPTION_dirty_decay_ms);
        uint64_t sweep_ms = decay_ms < 0 ? SWEEP_MS : size_min(SWEEP_MS, (size_t)decay_ms / 4 + 1);
        if (now_ms - heap->sweep_ms >= sweep_ms) {
            heap_sweep(heap, now_ms);
        }
    }
    /* A thread that lives for a short time may not come here again. */
    if (elapsed != 0 || is_first) {
        global_tick(now_ms);
    }
    heap_set_pace(heap);
}
