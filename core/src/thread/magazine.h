/* SPDX-License-Identifier: MIT
 *
 * Magazines: the few free slots of a medium class that a heap holds. malloc pops the list; free
 * pushes to it, whichever slab the slot is of and whoever allocated it. An empty magazine is filled
 * to half its limit from an arena's depot, a full one is emptied to half.
 *
 * Blocks of pages, while the heap's stacks are private, lie in lists of their own classes, and in the fast build are popped
 * and pushed by the same instructions, each linked by its first word: where sizes are mixed, each branch on what a block is
 * would be wrong at every second call, and its descriptor would be one more line of memory. Meanwhile they are ACTIVE, as a
 * slot in a magazine counts as handed out by its slab.
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

/* Where links are coded, a list of blocks of pages holds their descriptors: what the program may write to is not followed.
 * Else it holds the blocks, as a list of slots does, so that the hit paths need not know what it is a list of. */
ALWAYS_INLINE bool class_has_descriptors(unsigned class)
{
    return MW_CODED_LINKS && class >= CLASSES;
}

/* Takes the top of the list of a medium or block class, which is not empty, for the program, which
 * asked for `size` bytes. */
ALWAYS_INLINE void *magazine_pop(struct heap *heap, unsigned class, size_t size)
{
    struct slot *slot = heap->free[class];
    check(heap->rooms[class] < 0 && !heap_is_anothers(heap));
    heap->rooms[class]++;
    if (class_has_descriptors(class)) {
        struct extent *extent = (struct extent *)slot;
        check(extent_size(extent) >= class_size(class));
        heap->free[class] = (struct slot *)slot->link; /* not coded itself */
        atomic_set(&extent->state, EXTENT_ACTIVE);
        canary_place_large(extent, size);
        return (void *)extent->start;
    }
    struct extent *extent = harden_slot_leaves(slot, class);
    heap->free[class] = slot_next(slot);
    harden_slot_taken(extent, slot, size, 0);
    return slot;
}

/* Whether a block of pages may come from this list, as that of the class below is empty: it is an eighth larger at most, and
 * the slow path would take it too. */
ALWAYS_INLINE bool magazine_may_replace(struct heap *heap, unsigned class)
{
    return class > CLASSES && class < LIST_CLASSES && heap->free[class] != NULL &&
           !heap_is_sampling(heap);
}

/* An empty magazine is that of a thread which does not allocate the class. */
ALWAYS_INLINE void magazine_close(struct heap *heap, unsigned class)
{
    check(heap->rooms[class] == 0);
    *heap_magazine(heap, class) = (struct magazine){0};
    *heap_limit(heap, class) = 0;
}

/* Whether there may be more in the list of a medium or block class. */
ALWAYS_INLINE bool magazine_wants(struct heap *heap, unsigned class)
{
    return heap->rooms[class] > (int16_t) - *heap_limit(heap, class);
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

/* Takes a slot, or where lists have no descriptors a block of pages, that the program freed, if there is room. */
ALWAYS_INLINE bool magazine_try_put(struct heap *heap, unsigned class, struct slot *slot)
{
    if (!magazine_has_room(heap, class, slot)) {
        return false;
    }
    check(class >= CLASSES
              ? pagemap_find(slot)->start == (uintptr_t)slot
              : slab_is_of_depot(pagemap_find(slot)) && slab_has_slot(pagemap_find(slot), slot));
    slot_push(&heap->free[class], slot);
    heap->rooms[class]--;
    heap->puts[class]++;
    heap->until_tick--;
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
