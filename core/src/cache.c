/* SPDX-License-Identifier: MIT
 *
 * The large blocks of a heap: the last few that it freed are kept for its next request of the same
 * size, so that a block that comes and goes costs two exchanges. Any thread may rob a block that has
 * been kept for too long: the owner puts with a store and takes with an exchange, others take with
 * an exchange.
 */
#include "heap.h"

static struct extent *heap_take_cached(struct heap *heap, size_t pages)
{
    for (unsigned i = 0; i < CACHE_BLOCKS; i++) {
        struct cached_block *block = &heap->cache[i];
        if (atomic_get(&block->pages) != pages) {
            continue;
        }
        struct extent *extent = atomic_swap(&block->extent, NULL); /* pairs with heap_free_large */
        atomic_set(&block->pages, 0);
        heap->cache_bytes -= pages << os_page_shift;
        if (extent != NULL) {
            check(extent_pages(extent) == pages);
            atomic_set(&extent->state, EXTENT_ACTIVE);
            return extent;
        }
    }
    return NULL;
}

static void cached_block_release(struct cached_block *block)
{
    struct extent *extent = atomic_swap(&block->extent, NULL); /* pairs with heap_free_large */
    if (extent != NULL) {
        atomic_set(&extent->state, EXTENT_ACTIVE);
        arena_free(arena_of(extent), extent);
    }
}

static void heap_rob_cache(struct heap *heap, uint32_t sweep, bool all)
{
    for (unsigned i = 0; i < CACHE_BLOCKS; i++) {
        struct cached_block *block = &heap->cache[i];
        if (atomic_get(&block->extent) != NULL && (all || atomic_get(&block->sweep) != sweep)) {
            cached_block_release(block);
        }
    }
}

static void heap_flush_cache(struct heap *heap)
{
    heap_rob_cache(heap, 0, true);
    for (unsigned i = 0; i < CACHE_BLOCKS; i++) {
        atomic_set(&heap->cache[i].pages, 0);
    }
    heap->cache_bytes = 0;
}

static struct extent *heap_alloc_large(struct heap *heap, size_t pages, size_t alignment)
{
    if (unlikely(--heap->budget < 0)) {
        heap_tick(heap);
    }
    struct extent *extent = NULL;
    if (alignment <= os_page_size) {
        alignment = os_page_size;
        extent = heap_take_cached(heap, pages);
        if (extent != NULL) {
            extent->is_zero = false;
            return extent;
        }
    }
    heap_tick(heap);
    /* Blocks of other sizes that the heap keeps come before memory that is not resident. */
    if (heap->cache_bytes >= pages << os_page_shift) {
        extent = arena_alloc_dirty(heap->arena, pages, alignment);
        if (extent == NULL) {
            heap_flush_cache(heap);
        }
    }
    if (extent == NULL) {
        extent = arena_alloc(heap->arena, pages, alignment);
    }
    if (extent == NULL) {
        heap_reclaim(heap);
        unsigned count = arena_count();
        for (unsigned i = 0; i < count && extent == NULL; i++) {
            extent = arena_alloc(arena_at((heap->arena->index + i) % count), pages, alignment);
        }
    }
    return extent;
}

static void heap_free_large(struct heap *heap, struct extent *extent)
{
    size_t size = extent_size(extent);
    if (unlikely(--heap->budget < 0)) {
        heap_tick(heap);
    }
    if (size <= CACHE_BLOCK_MAX && !heap->is_slow && option(OPTION_dirty_decay_ms) != 0) {
        if (heap->cache_bytes + size > CACHE_MAX) {
            heap_flush_cache(heap);
        }
        for (unsigned i = 0; i < CACHE_BLOCKS; i++) {
            struct cached_block *block = &heap->cache[i];
            if (atomic_get(&block->extent) != NULL) {
                continue;
            }
            /* Stale when somebody robbed the block. */
            heap->cache_bytes -= (size_t)atomic_get(&block->pages) << os_page_shift;
            heap->cache_bytes += size;
            atomic_set(&extent->state, EXTENT_CACHED);
            atomic_set(&block->pages, (uint32_t)extent_pages(extent));
            atomic_set(&block->sweep, atomic_get(&heaps.sweep));
            atomic_set_release(&block->extent, extent); /* pairs with heap_take_cached */
            return;
        }
    }
    arena_free(arena_of(extent), extent);
    heap_note_release(heap);
}
