/* SPDX-License-Identifier: MIT
 *
 * Small slots that the program frees and that are not of the heap's own slabs: the heap keeps some for its next
 * requests, in the list of their class. What goes home to a slab whose owner sleeps is of no use until that wakes
 * up, and cold by then.
 */
#ifndef MALLOW_KEEP_H
#define MALLOW_KEEP_H

#include "../slots/common.h"
#include "../slots/harden.h"
#include "heap_state.h"

/* Slots of others are kept from so many heaps for each arena (one per CPU) on: there the owner sleeps. With fewer a
 * slot that goes home has its next free on the hit path; but where threads go on exchanging blocks, one that is kept
 * spares both the wait for each other's memory. So slots are kept too once SENT_MANY more than one in SENT_SHARE of
 * those that the heap took and gave went home; a thread that frees what another one left to it does not come so far. */
#define KEEPING_HEAPS 2u
#define SENT_MANY MW_LIMIT(4096u, 64u)
#define SENT_SHARE 8u

/* A tick: so many slots and blocks were taken and given since the one before. Begins anew when the heap settles, as
 * what is kept does not tell what would be sent. */
ALWAYS_INLINE void heap_expect_sent(struct heap *heap, uint32_t moved)
{
    if (heap->sent_home < SENT_MANY) {
        heap->sent_home -= (uint32_t)size_min(heap->sent_home, moved / SENT_SHARE);
    }
}

/* What a thread takes of a class from common slabs before it gets a slab of its own. A block of them that it keeps
 * counts so much towards that: one that does this often has a slab of its own soon, and frees on the hit path.
 * Where threads are very many, these slabs would need more memory than all blocks. */
#define FIRST_BYTES (16 * KiB)
#define FIRST_AGAIN_BYTES 128u
#define VERY_MANY_HEAPS MW_LIMIT(80u, 4u)

/* A list of a small class that is shorter than this has room for what is kept: at most 16 KiB of each size, and no
 * more than the heap takes from a slab at a time. */
#define KEPT_SLOTS 128u

ALWAYS_INLINE uint32_t list_most(struct heap *heap, unsigned class)
{
    check(class < SMALL_CLASSES);
    unsigned doublings = class > CLASS_OF(128) ? (class - CLASS_OF(128) + 3) / 4 : 0;
    return heap->list_max < KEPT_SLOTS >> doublings ? heap->list_max : KEPT_SLOTS >> doublings;
}

/* The list of a small class, which was empty, gets `count` slots, but for the first, which the caller hands out. */
ALWAYS_INLINE void heap_fill_list(struct heap *heap, unsigned class, struct slot *list,
                                  uint32_t count)
{
    check(heap->free[class] == NULL && count > 0 && count <= SLAB_SLOTS_MAX);
    heap->until_tick -= (int32_t)count;
    heap_count_fill(heap, class, count);
    heap->free[class] = slot_next(list);
    heap->rooms[class] = (int16_t)(list_most(heap, class) - (count - 1));
}

/* Brings the list of a small class back to the slabs. */
static void heap_return_small_list(struct heap *heap, unsigned class);

/* The same for a list with slots of full slabs, which have no owner: to these and to the heap's own slot by slot, so that
 * those that become empty by it are known to be. */
static void heap_take_list_back(struct heap *heap, unsigned class);

/* Brings a slot where it can be handed out from: what lies above in the layers says how. */
static void (*const heap_takes_back)(struct heap *heap, struct extent *extent, struct slot *slot);

/* Whether the list of a class has room for what is kept. */
ALWAYS_INLINE bool heap_has_room(struct heap *heap, unsigned class)
{
    check(class < SMALL_CLASSES && !heap_is_anothers(heap));
    return heap->rooms[class] > 0;
}

/* Whether the heap keeps slots that it frees into slabs of other heaps. */
ALWAYS_INLINE bool heap_keeps_of_heaps(struct heap *heap, unsigned class)
{
    return heap_has_room(heap, class) &&
           (heap->sent_home >= SENT_MANY ||
            atomic_get(&heaps.in_use) >= KEEPING_HEAPS * arena_count());
}

/* Where slabs are nearly full each has few slots for a refill, and a free finds mostly one that had none and has no owner:
 * to make it the heap's, and to take those few soon, is more work than to keep the slot. That is so if a slab has no more
 * than SCARCE_SLOTS, or if there are many slabs of fewer than SCARCE_CAPACITY, so that less is wanted of each before it is
 * allocated from. Not while slabs are shared: these have no owner either, but free slots, and should become empty. Behind
 * SCARCE_KEPT the slab becomes the heap's: who goes on to free has hits then. It ends when more than SCARCE_READY slabs are
 * ready: then the list goes back, so that what is kept holds few of them. */
#define SCARCE_SLOTS 8u
#define SCARCE_CAPACITY 128u
#define SCARCE_KEPT 16
#define SCARCE_READY 4u

/* Nothing is served from class 0, so that a pointer of nobody's is not kept. */
ALWAYS_INLINE bool heap_keeps_of_nobody(struct heap *heap, unsigned class)
{
    return heap->bins[class].is_scarce && heap_has_room(heap, class) &&
           heap->rooms[class] + SCARCE_KEPT > (int)list_most(heap, class);
}

/* Whether it keeps a slot that it frees into a slab whose owner was read as OWNER_COMMON. One that is free already is
 * not kept, so that who looks closer tells. */
ALWAYS_INLINE bool heap_keeps_of_common(struct heap *heap, struct extent *extent, struct slot *slot)
{
    uint32_t taken = heap->bins[extent->slab.class].common_bytes;
    /* The table is there for who has read the owner by slab_is_common. */
    return taken + FIRST_AGAIN_BYTES <= FIRST_BYTES && slab_is_common(extent) &&
           common_is_first(extent) && common_block_size(extent, slot) != 0 &&
           heap_has_room(heap, extent->slab.class);
}

/* Whether it keeps a slot of a slab with such an owner. What it does not keep goes home; where frees are delayed all
 * does, because a slot of the current slab is cheaper there. */
ALWAYS_INLINE bool heap_keeps(struct heap *heap, struct extent *extent, struct heap *owner,
                              struct slot *slot)
{
    check(owner != heap);
    if (MW_DELAY_FREE) {
        return false;
    }
    if (owner == OWNER_COMMON) {
        return heap_keeps_of_common(heap, extent, slot);
    }
    return owner != NULL && owner < OWNER_GUARDED && heap_keeps_of_heaps(heap, extent->slab.class);
}

/* To be called for each slot that was kept, in a heap that takes samples, before its next tick: the slot may be one
 * whose turn is a sample. Then the list goes home, and the next call is that sample. */
static void heap_note_kept(struct heap *heap, unsigned class);

/* Keeps a slot that the program held until now. A tick may be due then. */
ALWAYS_INLINE void heap_keep(struct heap *heap, struct extent *extent, struct slot *slot)
{
    unsigned class = extent->class;
    check(slab_has_slot_at(extent, slot) && heap->rooms[class] > 0);
    if (unlikely(heap->free[class] == slot)) {
        harden_bad_block("free", extent, slot);
    }
    slot_push(&heap->free[class], slot);
    heap->rooms[class]--;
    heap->puts[class]++;
    heap->until_tick--;
}

ALWAYS_INLINE void heap_keep_of_heaps(struct heap *heap, struct extent *extent, struct slot *slot)
{
    heap_keep(heap, extent, slot);
    heap->counts[extent->class].sent++;
}

/* The same for who has not asked which of the two it is. */
ALWAYS_INLINE void heap_keep_of_any(struct heap *heap, struct extent *extent, struct heap *owner,
                                    struct slot *slot)
{
    heap_keep(heap, extent, slot);
    if (owner == NULL) {
        return;
    }
    if (owner != OWNER_COMMON) {
        heap->counts[extent->class].sent++;
    } else if (atomic_get(&heaps.in_use) <= VERY_MANY_HEAPS) {
        heap->bins[extent->class].common_bytes += FIRST_AGAIN_BYTES;
    }
}

#endif
