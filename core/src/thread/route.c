/* SPDX-License-Identifier: MIT */
#include "route.h"

static _Atomic(struct arena *) oversize_arena; /* const once set */

/* jemalloc's name of it. */
#define OVERSIZE_NAME "auto_oversize"
static_assert(sizeof OVERSIZE_NAME <= ARENA_NAME_SIZE, "it fits");

static struct arena *thread_oversize_arena(void)
{
    return atomic_get_acquire(&oversize_arena); /* pairs with oversize_create */
}

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

static struct direct *thread_find_direct(unsigned number)
{
    struct arena *arena = arena_numbered(number);
    return arena != NULL ? direct_find(arena) : NULL;
}

static bool thread_must_lack_direct(unsigned number)
{
    return direct_is_in_hook() && number < thread_arenas() && thread_find_direct(number) == NULL;
}

/* Who names an arena sees to it that nobody destroys it meanwhile. The lock is for making a pool: whoever waits for a hook's
 * arena may have it, so no hook may wait for it. */
static struct direct *thread_direct_numbered(unsigned number)
{
    process_init();
    struct direct *direct = thread_find_direct(number);
    if (likely(direct != NULL) || direct_is_in_hook()) {
        return direct;
    }
    lock_take(&table_lock);
    struct arena *arena = thread_arena_numbered(number);
    direct = arena != NULL ? direct_open(arena) : NULL;
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
    bool is_plain = heap->bound == NULL && !heap->is_uncached &&
                    (heap->cached_most == 0 || heap->cached_most == wishes.cached_most);
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

/* As in jemalloc: oversized blocks are few and seldom fit each other, so free memory of theirs goes back
 * at once, unless the purge thread sees to it. */
static struct arena *oversize_create(void)
{
    lock_take(&table_lock);
    struct arena *arena = atomic_get(&oversize_arena);
    if (arena == NULL) {
        arena = direct_create_arena(thread_arenas(), NULL);
    }
    if (arena != NULL && atomic_get(&oversize_arena) == NULL) {
        lock_take(&arena->lock);
        memcpy(arena->name, OVERSIZE_NAME, sizeof OVERSIZE_NAME);
        lock_release(&arena->lock);
        if (!option(OPTION_purge_thread)) {
            atomic_set(&arena->dirty_ms, 0);
            atomic_set(&arena->muzzy_ms, 0);
        }
        atomic_set_release(&oversize_arena, arena); /* pairs with thread_oversize_arena */
    }
    lock_release(&table_lock);
    return arena;
}

static struct direct *oversize_direct(void)
{
    struct arena *arena = thread_oversize_arena();
    if (unlikely(arena == NULL)) {
        arena = oversize_create();
    }
    return arena != NULL ? direct_find(arena) : NULL;
}

static struct direct *thread_direct(struct heap *heap, size_t size)
{
    if (unlikely(direct_is_in_hook())) {
        return NULL;
    }
    struct arena *arena = heap->bound;
    if (arena == NULL && unlikely(size >= wishes.oversize_least) && heap->thread != NULL) {
        struct direct *direct = oversize_direct();
        if (direct != NULL && !lock_is_mine(&direct->lock)) {
            return direct;
        }
    }
    if (arena == NULL &&
        (heap->is_uncached || (heap->cached_most != 0 && size > heap->cached_most))) {
        arena = heap->arena;
    }
    struct direct *direct = arena != NULL ? direct_find(arena) : NULL;
    if (arena != NULL && direct == NULL) {
        direct = thread_direct_numbered(arena->number);
    }
    /* Not where a handler of a signal has interrupted work on it. */
    return direct != NULL && !lock_is_mine(&direct->lock) ? direct : NULL;
}
