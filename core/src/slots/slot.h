/* SPDX-License-Identifier: MIT
 *
 * Slots in their slab: where they begin, which of them the program holds, and lists of them.
 *
 * Bitmap (secure and debug): a bit per slot in the descriptor says whether the program holds the
 * slot. It is set and cleared atomically, because any thread may free. In secure there are two bits, and the
 * program holds a slot while they differ: one that anybody changes, atomically, and one that only the thread changes
 * that owns the slab, without waiting for anything. Where the two are changed at the same moment, as by two frees
 * of one block, the slot seems to be held, and its list is found to be damaged before it is handed out.
 *
 * Unsettled slots (secure): with several threads the word of a bit would move from CPU to CPU for each block
 * that is freed by another thread than its slab's owner. Such a free leaves the bit as it is at first. That the
 * program held the slot it tells by the canary, which it takes away in one atomic step, so whoever frees, resizes
 * or measures the block from now on finds none. The bit is cleared before the slot moves on in the quarantine
 * (thread/delay.h), so nobody else can have it yet: that tells a second free even if it was the owner's, who looks
 * at the bit first, at the same moment, or if the program brought the canary back.
 *
 * Lists: a free slot's first word is the link to the next. The program may have overwritten it, so
 * in secure and debug a link is looked at before anybody follows it: slab_next_slot does that in
 * lists of one slab, list_slot_check (harden.h) in lists of one class.
 */
#ifndef MALLOW_SLOT_H
#define MALLOW_SLOT_H

#include "../memory/extent.h"
#include "sizeclass.h"
#include "strength.h"

#include <string.h>

/* The first byte of a range that has another value; `size` if there is none. */
static size_t fill_differs(const unsigned char *at, size_t size, unsigned char fill);

#define FILL_NEW 0xa5
#define FILL_FREE (MW_MODE == MW_SECURE ? 0 : 0x5a)
#define FILL_NEW_WORD (FILL_NEW * (uint64_t)0x0101010101010101)
#define FILL_FREE_WORD (FILL_FREE * (uint64_t)0x0101010101010101)

/* Two words, which a processor takes in one operation; slots begin and end where they may lie. */
typedef uint64_t word_pair __attribute__((vector_size(16), may_alias));
#define FILL_FREE_PAIR ((word_pair){FILL_FREE_WORD, FILL_FREE_WORD})

/* Slots up to this size are filled, and looked at, without a call. */
#define FILL_NEAR 128u

/* Whether a slot begins at a distance from its slab's start: whether that is a multiple of the slot
 * size, with one multiplication (Lemire, Kaser, Kurz: "Faster remainder by direct computation",
 * 2019). */
ALWAYS_INLINE bool distance_is_of_slot(size_t distance, uint64_t reciprocal)
{
    return distance * reciprocal < reciprocal;
}

/* The same for an address that lies in the slab. */
ALWAYS_INLINE bool slab_has_slot_at(struct extent *extent, const void *address)
{
    return distance_is_of_slot((uintptr_t)address - extent->start, extent->slab.reciprocal);
}

/* The number of the slot that holds `address`; exact for slabs under 4 GiB. */
ALWAYS_INLINE uint32_t slab_index(struct extent *extent, const void *address)
{
    uint64_t distance = (uintptr_t)address - extent->start;
    return (uint32_t)(((unsigned __int128)distance * extent->slab.reciprocal) >> 64);
}

/* The number of the slab's slot that begins at any address at all; at least its capacity if none
 * does. */
ALWAYS_INLINE uint64_t slab_slot_number(struct extent *extent, const void *address)
{
    uint64_t distance = (uintptr_t)address - extent->start;
    unsigned __int128 product = (unsigned __int128)distance * extent->slab.reciprocal;
    return (uint64_t)product < extent->slab.reciprocal ? (uint64_t)(product >> 64) : UINT64_MAX;
}

ALWAYS_INLINE bool slab_has_slot(struct extent *extent, const void *address)
{
    return extent_is_slab(extent) && slab_slot_number(extent, address) < extent->slab.capacity;
}

/* --- What the program holds ------------------------------------------------------------------- */

#if MW_SLOT_BITMAP
ALWAYS_INLINE _Atomic uint64_t *live_word(struct extent *extent, uint32_t index)
{
    return &extent->live[(size_t)index / 64 * LIVE_WORDS];
}
#else
ALWAYS_INLINE _Atomic uint64_t *live_word(struct extent *extent, uint32_t index)
{
    (void)extent;
    (void)index;
    return NULL;
}
#endif

ALWAYS_INLINE uint64_t owned_bits(const _Atomic uint64_t *live)
{
    return MW_PLAIN_BITS ? atomic_get(live + 1) : 0;
}

/* Whether the program is known to hold a slot of the slab, by its number; in the fast build it holds none. */
ALWAYS_INLINE bool slot_number_is_held(struct extent *extent, uint32_t index)
{
    const _Atomic uint64_t *word = live_word(extent, index);
    return MW_SLOT_BITMAP && ((atomic_get(word) ^ owned_bits(word)) >> (index % 64) & 1) != 0;
}

ALWAYS_INLINE bool slot_is_held(struct extent *extent, const void *slot)
{
    return slot_number_is_held(extent, slab_index(extent, slot));
}

ALWAYS_INLINE void slots_hold_none(struct extent *extent)
{
    if (MW_SLOT_BITMAP) {
        for (uint32_t i = 0; i < extent->slab.capacity; i += 64) {
            for (unsigned k = 0; k < LIVE_WORDS; k++) {
                atomic_set(live_word(extent, i) + k, 0);
            }
        }
    }
}

/* Pairs without a loop: of a memset whose size is known compilers make `rep stos`, which takes as long as the rest of
 * free. */
#define EDGE_PAIRS 15
static_assert(FILL_EDGE == (EDGE_PAIRS + 1) * sizeof(word_pair), "an edge has one pair more");

ALWAYS_INLINE void slot_fill_edge_pairs(word_pair *pairs)
{
    const word_pair fill = FILL_FREE_PAIR;
    pairs[0] = pairs[1] = pairs[2] = pairs[3] = pairs[4] = fill;
    pairs[5] = pairs[6] = pairs[7] = pairs[8] = pairs[9] = fill;
    pairs[10] = pairs[11] = pairs[12] = pairs[13] = pairs[14] = fill;
}

/* Gives a free slot of more than FILL_NEAR bytes, or one that nobody had, the fill, but for the word
 * of the link: all of it if it has up to `whole` bytes, else its ends. */
ALWAYS_INLINE void slot_fill_behind_link(char *slot, size_t size, size_t whole)
{
    char *behind = slot + sizeof(struct slot);
    char *last = slot + size - sizeof(uint64_t);
    if (strength_spares_middle(size, whole)) {
        store_unaligned(behind, FILL_FREE_WORD);
        slot_fill_edge_pairs((word_pair *)slot + 1);
        slot_fill_edge_pairs((word_pair *)(slot + size - FILL_EDGE));
        store_unaligned(last - sizeof(uint64_t), FILL_FREE_WORD);
    } else {
        memset(behind, FILL_FREE, (size_t)(last - behind));
    }
    /* At once: who frees the slot behind looks at it at any time, see canary_front_is_whole. */
    atomic_set((_Atomic uint64_t *)(void *)last, FILL_FREE_WORD);
}

ALWAYS_INLINE void slots_fill_carved(struct extent *extent, char *first, size_t count)
{
    if (MW_FILL && (FILL_FREE != 0 || extent->slab.was_touched)) {
        size_t size = extent->slab.slot_size;
        for (size_t i = 0; i < count; i++) {
            slot_fill_behind_link(first + i * size, size, strength.look_whole);
        }
    }
}

/* Notes whether the program holds a slot. Returns whether it did so before. While the process has one
 * thread nobody else changes the word, and an atomic change of it is most of what a call costs. */
ALWAYS_INLINE bool slot_set_held(struct extent *extent, uint32_t index, bool is_held)
{
    _Atomic uint64_t *word = live_word(extent, index);
    uint64_t owned = owned_bits(word);
    if (MW_PLAIN_BITS && likely(libc_has_one_thread())) {
        uint64_t bits = atomic_get(word) ^ owned;
        bool before = word_set_bit(&bits, index, is_held);
        atomic_set(word, bits ^ owned);
        return before;
    }
    /* The bit alone is looked at, so that the processor can set it and tell in one operation. */
    uint64_t bit = (uint64_t)1 << (index % 64);
    if (MW_PLAIN_BITS) {
        bool was_set = (atomic_fetch_xor_explicit(word, bit, memory_order_acq_rel) & bit) != 0;
        bool before = was_set != ((owned & bit) != 0);
        if (unlikely(before == is_held)) {
            atomic_fetch_xor_explicit(word, bit, memory_order_relaxed);
        }
        return before;
    }
    return is_held ? (atomic_fetch_or_explicit(word, bit, memory_order_acquire) & bit) != 0
                   : (atomic_fetch_and_explicit(word, ~bit, memory_order_release) & bit) != 0;
}

/* The same by the thread that owns the slab. */
ALWAYS_INLINE bool slot_set_held_by_owner(struct extent *extent, uint64_t index, bool is_held)
{
    if (!MW_PLAIN_BITS) {
        return slot_set_held(extent, (uint32_t)index, is_held);
    }
    _Atomic uint64_t *word = live_word(extent, (uint32_t)index);
    uint64_t owned = owned_bits(word);
    if (unlikely(word_has_bit(atomic_get(word) ^ owned, index) == is_held)) {
        return is_held;
    }
    atomic_set(word + 1, owned ^ (uint64_t)1 << (index % 64));
    return !is_held;
}

/* --- Lists ------------------------------------------------------------------------------------ */

/* A list that grows at its end. */
struct slot_list {
    struct slot *head; /* NULL: empty */
    struct slot *tail; /* its link is set last, by slot_list_end */
};

ALWAYS_INLINE void slot_list_append(struct slot_list *list, struct slot *slot)
{
    if (list->head == NULL) {
        list->head = slot;
    } else {
        slot_set_next(list->tail, slot);
    }
    list->tail = slot;
}

ALWAYS_INLINE void slot_list_end(struct slot_list *list)
{
    if (list->head != NULL) {
        slot_set_next(list->tail, NULL);
    }
}

/* Whether a link may be one that we wrote: what the program wrote there hardly ever decodes to an
 * aligned address of user space. */
#define SLOT_LINK_NEVER (~(ADDRESS_LIMIT - 16))

ALWAYS_INLINE bool slot_link_is_plausible(const struct slot *slot)
{
    return ((uintptr_t)slot_next(slot) & SLOT_LINK_NEVER) == 0;
}

/* Ends the program: a list of free slots of a class leads to `link`, which is none of them. */
_Noreturn static COLD void slot_bad_link(unsigned class, const void *link);

/* The same where it is known that the link of `slot` does: that is a write to a free slot if nobody of ours wrote such a
 * link. */
_Noreturn static COLD void slot_bad_next(struct extent *extent, const struct slot *slot);

/* The slot behind `slot` in a list of free slots of one slab; NULL at its end. */
ALWAYS_INLINE struct slot *slab_next_slot(struct extent *extent, struct slot *slot)
{
    struct slot *next = slot_next(slot);
    if (MW_SLOT_BITMAP &&
        unlikely(next != NULL && (!slab_has_slot(extent, next) || slot_is_held(extent, next)))) {
        slot_bad_next(extent, slot);
    }
    return next;
}

/* The same where the list is known to go on. */
ALWAYS_INLINE struct slot *slab_next_slot_of_more(struct extent *extent, struct slot *slot)
{
    struct slot *next = slab_next_slot(extent, slot);
    if (MW_SLOT_BITMAP && unlikely(next == NULL)) {
        slot_bad_link(extent->slab.class, next);
    }
    return next;
}

/* Ends the program: `pointer` lies inside a block of `size` bytes. */
_Noreturn static COLD void harden_interior(const char *call, const void *pointer, uintptr_t block,
                                           size_t size);

/* What was written over other content: from the first to the last byte of it. */
struct written {
    size_t at;
    size_t length; /* 0: nothing */
};

/* The bytes from `from` to `end` that are not the fill. */
static struct written fill_find_written(const unsigned char *bytes, size_t from, size_t end,
                                        unsigned char fill);

/* Of a free slot: all of the link, where nobody can say which of its bytes were written. */
static struct written slot_find_written(const struct slot *slot, size_t size);

/* Ends the program: what was found in a free slot, which begins a block of `size` bytes, was written after its free.
 * `call` as in struct fault. */
_Noreturn static COLD void slot_tell_written(const char *call, const struct slot *slot, size_t size,
                                             struct written found);

/* The same where it is known only that something was; finds what. */
_Noreturn static COLD void slot_bad_content(const char *call, const struct slot *slot, size_t size);

/* Ends the program with a sentence about a call ("free", "realloc") on a block of a slab that is
 * not one that the program holds. */
_Noreturn static COLD void harden_bad_block(const char *call, struct extent *extent,
                                            const void *block);

#endif
