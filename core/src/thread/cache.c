/* SPDX-License-Identifier: MIT
 *
 * The large blocks of a heap: the last few that it freed are kept for its next requests of such a
 * size, so that a block that comes and goes costs one exchange. Any thread may rob a block that has
 * been kept for too long: the owner puts with a store and takes with an exchange, others take with
 * an exchange.
 */
#include "heap.h"

#include <string.h>

#define CACHE_ALL_USED ((1u << CACHE_BLOCKS) - 1)

/* The number of the smallest block that has room for `pages`, at most CACHE_BLOCK_MAX, and wastes no
 * more than the classes of slots do; CACHE_BLOCKS if there is none. */
static unsigned cache_find(struct heap *heap, size_t pages)
{
    /* What a block has too much, and its number; no branch would be predicted here. */
    uint64_t best = UINT64_MAX;
    for (unsigned i = 0; i < CACHE_BLOCKS; i++) {
        uint32_t excess = heap->cache_pages[i] - (uint32_t)pages; /* huge for a smaller block */
        uint64_t key = (uint64_t)excess * CACHE_BLOCKS + i;
        best = key < best ? key : best;
    }
    return best / CACHE_BLOCKS <= pages / 8 ? (unsigned)(best % CACHE_BLOCKS) : CACHE_BLOCKS;
}

/* A kept block for a request of `pages`; NULL if there is none. */
static struct extent *cache_take(struct heap *heap, size_t pages)
{
    unsigned at = heap->cache_latest;
    if (heap->cache_used == 0 || pages > CACHE_BLOCK_MAX >> os_page_shift) {
        return NULL;
    }
    if (heap->cache_pages[at] != pages) {
        at = cache_find(heap, pages);
        if (at == CACHE_BLOCKS) {
            return NULL;
        }
    }
    struct extent *extent = atomic_swap(&heap->cache[at].extent, NULL); /* pairs with cache_put */
    heap->cache_bytes -= (size_t)heap->cache_pages[at] << os_page_shift;
    heap->cache_pages[at] = 0;
    heap->cache_used &= ~(1u << at);
    if (extent != NULL) {
        atomic_set(&extent->state, EXTENT_ACTIVE);
    }
    return extent;
}

static void cached_block_release(struct cached_block *block)
{
    struct extent *extent = atomic_swap(&block->extent, NULL); /* pairs with cache_put */
    if (extent != NULL) {
        atomic_set(&extent->state, EXTENT_ACTIVE);
        arena_free(arena_of(extent), extent);
    }
}

/* Puts a block where none is, or else in place of one that has been there for long. */
static void cache_put(struct heap *heap, struct extent *extent)
{
    unsigned at = (heap->cache_latest + 1) % CACHE_BLOCKS;
    if (heap->cache_used != CACHE_ALL_USED) {
        at = (unsigned)__builtin_ctz(~heap->cache_used);
    } else {
        cached_block_release(&heap->cache[at]);
        heap_note_release(heap);
    }
    heap->cache_bytes += extent_size(extent) - ((size_t)heap->cache_pages[at] << os_page_shift);
    heap->cache_pages[at] = (uint32_t)extent_pages(extent);
    heap->cache_used |= 1u << at;
    heap->cache_latest = at;
    atomic_set(&extent->state, EXTENT_CACHED);
    atomic_set(&heap->cache[at].sweep, atomic_get(&heaps.sweep));
    atomic_set_release(&heap->cache[at].extent, extent); /* pairs with cache_take */
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
    if (heap->cache_used == 0) {
        return;
    }
    heap_rob_cache(heap, 0, true);
    heap_note_release(heap);
    memset(heap->cache_pages, 0, sizeof heap->cache_pages);
    heap->cache_used = 0;
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
        extent = cache_take(heap, pages);
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
        cache_put(heap, extent);
        return;
    }
    arena_free(arena_of(extent), extent);
    heap_note_release(heap);
}
