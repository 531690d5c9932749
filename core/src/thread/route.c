/* SPDX-License-Identifier: MIT */
#include "route.h"

static struct arena *thread_arena_numbered(unsigned number)
{
    check(lock_is_mine(&table_lock));
    struct arena *arena = arena_numbered(number);
    if (arena == NULL && number < thread_arenas()) {
        lock_take(&process.heaps_lock);
        arena = arena_get_locked(number);
        lock_release(&process.heaps_lock);
    }
    return arena;
}

static struct direct *thread_direct_numbered(unsigned number)
{
    process_init();
    lock_take(&table_lock);
    struct arena *arena = thread_arena_numbered(number);
    struct direct *direct = arena != NULL ? direct_open(arena) : NULL;
    lock_release(&table_lock);
    return direct;
}

/* The calling thread's own heap; NULL if it has none. */
static struct heap *thread_own_heap(void)
{
    struct heap *heap = thread_enter();
    thread_leave(heap);
    return heap != &heap_shared ? heap : NULL;
}

/* Sends the calls of the thread where they have to go. */
static void thread_route(struct heap *heap)
{
    bool is_plain = heap->bound == NULL && !heap->is_uncached && heap->cached_most == 0;
    heap_self =
        is_plain && !heap->is_counting && !atomic_get(&process.stay_slow) ? heap : HEAP_NONE;
}

static bool thread_use_arena(unsigned number)
{
    struct heap *heap = thread_own_heap();
    lock_take(&table_lock);
    struct arena *arena = heap != NULL ? thread_arena_numbered(number) : NULL;
    if (arena != NULL && (!arena->is_explicit || direct_open(arena) != NULL)) {
        if (heap->bound != NULL) {
            atomic_sub(&heap->bound->bound, 1);
        }
        heap->bound = arena->is_explicit ? arena : NULL;
        if (arena->is_explicit) {
            atomic_add(&arena->bound, 1);
        } else {
            heap->arena = arena;
        }
    }
    lock_release(&table_lock);
    if (arena != NULL) {
        thread_route(heap);
    }
    return arena != NULL;
}

static unsigned thread_arena(void)
{
    struct heap *heap = thread_enter();
    unsigned number = heap->bound != NULL ? heap->bound->number : heap->arena->number;
    thread_leave(heap);
    return number;
}

static bool thread_set_cached(bool is_cached)
{
    struct heap *heap = thread_own_heap();
    if (heap != NULL) {
        heap->is_uncached = !is_cached;
        thread_route(heap);
    }
    return heap != NULL;
}

static bool thread_set_cached_most(size_t size)
{
    struct heap *heap = thread_own_heap();
    if (heap != NULL) {
        heap->cached_most = size;
        thread_route(heap);
    }
    return heap != NULL;
}

static struct direct *thread_bound_direct(void)
{
    if (likely(heap_self != HEAP_NONE)) {
        return NULL;
    }
    struct heap *heap = thread_enter();
    struct direct *direct = heap->bound != NULL ? thread_direct(heap, 0) : NULL;
    thread_leave(heap);
    return direct;
}

static struct direct *thread_direct(struct heap *heap, size_t size)
{
    if (unlikely(direct_is_locked_here())) {
        return NULL; /* a hook that this thread has called */
    }
    struct arena *arena = heap->bound;
    if (arena == NULL &&
        (heap->is_uncached || (heap->cached_most != 0 && size > heap->cached_most))) {
        arena = heap->arena;
    }
    struct direct *direct = arena != NULL ? direct_find(arena) : NULL;
    if (arena != NULL && direct == NULL) {
        direct = thread_direct_numbered(arena->number);
    }
    return direct;
}
