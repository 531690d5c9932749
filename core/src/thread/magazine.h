/* SPDX-License-Identifier: MIT
 *
 * Magazines: the few free slots of a medium class that a heap holds. malloc pops the list; free
 * pushes to it, whichever slab the slot is of and whoever allocated it. An empty magazine is filled
 * to half its limit from an arena's depot, a full one is emptied to half.
 *
 * Blocks of pages, while the heap's stacks are private, lie in lists of their own classes, and are
 * popped and pushed by the same instructions: where sizes are mixed, each branch on what a block is
 * would be wrong at every second call. A block's place in the list is its descriptor, a slot's is the
 * slot; what is written to a descriptor goes to heap->no_block if there is none.
 *
 * What is in a magazine nobody else can use, so the limit begins low, grows with each visit to the
 * depot, is halved when the heap settles, and falls while the thread only frees: a thread that uses
 * a class now and then holds a slot or two of it, one that only frees holds none. The limits of a
 * heap have a common bound, which is the lower the more threads there are.
 */
#ifndef MALLOW_MAGAZINE_H
#define MALLOW_MAGAZINE_H

#include "../slots/harden.h"
#include "heap_state.h"

/* Takes the next slot off the hit path's list of a class, for the program; NULL if it is empty. */
ALWAYS_INLINE struct slot *heap_pop(struct heap *heap, unsigned class)
{
    struct slot *slot = heap->free[class];
    if (likely(slot != NULL)) {
        harden_slot_leaves(slot, class);
        heap->free[class] = slot_next(slot);
        check(!class_is_medium(class) || heap->rooms[class] < 0);
        heap->rooms[class]++;
    }
    return slot;
}

/* Takes the first slot of a list that malloc looks up, which is not empty, for a block of a family. In builds with
 * canaries the rest is out of line: slots of more than FILL_NEAR bytes, and any. */
static NOINLINE void *alloc_first_larger(struct heap *heap, unsigned class, size_t size,
                                         uint8_t family);
static NOINLINE void *alloc_first_of_any(struct heap *heap, unsigned class, size_t size,
                                         uint8_t family);

ALWAYS_INLINE void *alloc_first(struct heap *heap, size_t class, size_t size, uint8_t family)
{
    struct slot *slot = heap->free[class];
    if (MW_CANARY) {
        struct extent *extent = heap->bins[class].current;
        if (unlikely(size > FILL_NEAR - CANARY_BYTES)) {
            return alloc_first_larger(heap, (unsigned)class, size, family);
        }
        if (unlikely(extent == NULL)) {
            return alloc_first_of_any(heap, (unsigned)class, size, family);
        }
        uint64_t index = slab_slot_number(extent, slot);
        if (unlikely(index >= extent->slab.capacity)) {
            return alloc_first_of_any(heap, (unsigned)class, size, family);
        }
        harden_first_taken(extent, &heap->free[class], index, size, family, true);
        heap->rooms[class]++;
        return slot;
    }
    struct extent *extent = harden_slot_leaves(slot, (unsigned)class);
    heap->free[class] = slot_next(slot);
    heap->rooms[class]++;
    harden_slot_taken(extent, slot, size, family);
    return slot;
}

/* Reads how many slots a magazine may hold at most, and at least if there is use for them: tcache_nslots_* and
 * tcache_ncached_max of jemalloc. */
static void magazines_load(void);

/* A slot when the magazine is empty; NULL if out of memory. Only slots of the class's own slabs are
 * aligned to what divides their size. */
static struct slot *magazine_fill(struct heap *heap, unsigned class, bool must_be_aligned);

/* One of two pointers, by whether a class is one of blocks of pages. Nobody can foretell that where sizes are
 * mixed, so there must be no branch. */
ALWAYS_INLINE void *block_or(void *block, void *other, unsigned class)
{
    opaque(class);
    void *chosen = __builtin_expect_with_probability(class >= CLASSES, 1, 0.5) ? block : other;
    opaque(chosen);
    return chosen;
}

/* What stands behind the top of a list. Blocks of pages are linked by their descriptors, whose links
 * need no key. */
ALWAYS_INLINE struct slot *list_next(const struct slot *top, unsigned class)
{
    return MW_CODED_LINKS && class >= CLASSES ? (struct slot *)top->link : slot_next(top);
}

/* Takes the top of the list of a medium or block class, which is not empty, for the program, which
 * asked for `size` bytes. */
ALWAYS_INLINE void *magazine_pop(struct heap *heap, unsigned class, size_t size)
{
    struct slot *slot = heap->free[class];
    check(heap->rooms[class] < 0 && !heap_is_anothers(heap));
    if (MW_SLOT_BITMAP && class < CLASSES) {
        harden_slot_leaves(slot, class);
    }
    heap->no_block.start = (uintptr_t)slot;
    struct extent *extent = block_or(slot, &heap->no_block, class);
    check(class < CLASSES || extent_size(extent) >= class_size(class));
    heap->free[class] = list_next(slot, class);
    heap->rooms[class]++;
    heap_count_stack(heap, -extent_pages(extent));
    atomic_set(&extent->state, EXTENT_ACTIVE);
    if (MW_SLOT_BITMAP && class < CLASSES) {
        harden_slot_taken(pagemap_find(slot), slot, size, 0);
    } else {
        canary_place_large(extent, size);
    }
    return (void *)extent->start;
}

/* Whether there may be more in the list of a medium or block class. */
ALWAYS_INLINE bool magazine_wants(struct heap *heap, unsigned class)
{
    return heap->rooms[class] > (int16_t)-heap_magazine(heap, class)->limit;
}

/* Whether the list of a class has room for what the program freed; `slot` is its place there. Ends the
 * program if it is there already, as the first. */
ALWAYS_INLINE bool magazine_has_room(struct heap *heap, unsigned class, struct slot *slot)
{
    check((heap->free[class] == NULL) == (heap->rooms[class] == 0) && !heap_is_anothers(heap));
    if (unlikely(!magazine_wants(heap, class))) {
        return false;
    }
    if (unlikely(heap->free[class] == slot)) {
        harden_bad_block("free", pagemap_find(slot), slot);
    }
    return true;
}

ALWAYS_INLINE void magazine_push(struct heap *heap, unsigned class, struct slot *slot)
{
    slot_push(&heap->free[class], slot);
    heap->rooms[class]--;
    heap->puts[class]++;
    heap->until_tick--;
}

/* Takes a slot that the program freed, if there is room. */
ALWAYS_INLINE bool magazine_try_put(struct heap *heap, unsigned class, struct slot *slot)
{
    if (!magazine_has_room(heap, class, slot)) {
        return false;
    }
    check(class < CLASSES && slab_is_of_depot(pagemap_find(slot)) &&
          slab_has_slot(pagemap_find(slot), slot));
    magazine_push(heap, class, slot);
    return true;
}

/* The same of a slot or a block of pages. */
ALWAYS_INLINE bool magazine_try_put_any(struct heap *heap, unsigned class, struct extent *extent,
                                        void *block)
{
    struct slot *slot = block_or(extent, block, class);
    struct extent *pages = block_or(extent, &heap->no_block, class);
    if (unlikely(extent_state(pages) != EXTENT_ACTIVE) || !magazine_has_room(heap, class, slot)) {
        return false;
    }
    check(!MW_CODED_LINKS && (class < CLASSES) == extent_is_slab(extent));
    pages->slab.stamp = clock_stamp();
    atomic_set(&pages->state, EXTENT_CACHED);
    atomic_set(&heap->no_block.state, EXTENT_ACTIVE);
    heap_count_stack(heap, extent_pages(pages));
    magazine_push(heap, class, slot);
    return true;
}

/* Takes it in any case. A full magazine is emptied to half first; where the thread does not
 * allocate such slots, the slot goes to a tray. */
static NOINLINE void magazine_put_slow(struct heap *heap, struct extent *extent, struct slot *slot);

/* To be called for each slot that free has put, in a heap that takes samples, before its next tick: the slot may
 * be one whose turn is a sample. Then the magazine is emptied, and the next call is that sample. */
static void magazine_note_put(struct heap *heap, unsigned class);

/* Brings all slots of a magazine back. */
static void magazine_empty(struct heap *heap, unsigned class);

/* The same, and halves its limit. */
static void magazine_return(struct heap *heap, unsigned class);

static bool magazine_is_valid(struct heap *heap, unsigned class);

#endif
