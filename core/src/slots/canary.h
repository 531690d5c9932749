/* SPDX-License-Identifier: MIT
 *
 * Canaries: what lies behind the bytes that the program asked for, in the secure build. (The
 * debug build has its red zones, see track.h.)
 *
 *   slot      | asked for         | padding: the first 8 bytes | ...            | canary |
 *             block               + size                                    + capacity
 *
 *   canary, as a number:
 *       | 63 .. 49  bytes between size and canary | 48 .. 41  family | 40 .. 0  0 |
 *   exclusive or with a key of the slab and the address, of whose bytes the lowest, which comes first, is not
 *   0, and the next one is 0.
 *
 * So the zero of a string that is one byte too long is found, and a string that is not terminated
 * ends within the canary, behind a byte of it. The key differs by slab and process. The
 * padding is no secret, only unlikely content: the same byte eight times, which is no character of ASCII. A
 * large block has padding alone, there and at the end of its pages, or, if these are a page more than
 * it needs, what lies there in the descriptor. There too is its size, 0 while the program does not
 * hold the block, and above it the family: who frees it exchanges that for 0.
 *
 * Of a block of aligned_alloc and its kin its alignment is kept for free_aligned_sized: of a slot
 * in the word in front of the canary, with the padding, if there is room behind that (no key: realloc in
 * place gives the word to the program); of a large block between size and family. No other call looks
 * there: what else is found is none.
 *
 * The family says which functions made the block: 0 for malloc and its kin, else a form of new,
 * in the lower two bits, and log2 of the alignment that its aligned forms were given. See
 * mixes.h.
 *
 * In front of a slot of a medium class lies the canary of another: it is looked at when the slot
 * is freed too, as the other may be free, or be held until the program ends.
 *
 * The padding is written before the size that it belongs to, and of a large block whose pages
 * change the size is 0 meanwhile: so mw_heap_is_valid may look at any time.
 *
 * Who writes: the thread that gets the block, before the program has it, or resizes it. Who
 * checks: free, realloc, malloc_usable_size, and mw_heap_is_valid.
 */
#ifndef MALLOW_CANARY_H
#define MALLOW_CANARY_H

#include "../profile/sample.h"
#include "common.h"
#include "guarded.h"
#include "hollow.h"
#include "mixes.h"

/* What a slot has more than the program may ask for. */
#define CANARY_BYTES (MW_CANARY ? 8u : 0u)

/* The largest requests that small classes and slots serve. */
#define SMALL_REQUEST_MAX (SMALL_MAX - CANARY_BYTES)
#define SLOT_REQUEST_MAX (SLOT_MAX - CANARY_BYTES)

/* Of a block whose canary or padding is not what it was. */
#define CANARY_DAMAGED SIZE_MAX

#define CANARY_SLACK_SHIFT 49
#define CANARY_FAMILY_SHIFT 41
#define CANARY_FIXED (((uint64_t)1 << CANARY_FAMILY_SHIFT) - 1)
#define LARGE_FAMILY_SHIFT 56
#define LARGE_ALIGNMENT_SHIFT 48
#define PADDING_BYTES 8u

/* In the place of the alignment: it is not known, but the block is held. */
#define LARGE_OF_NO_BYTES ((size_t)0xff << LARGE_ALIGNMENT_SHIFT)

static_assert(ADDRESS_LIMIT <= (size_t)1 << LARGE_ALIGNMENT_SHIFT, "a size has 48 bits");
static_assert(SLOT_MAX - 8 < (size_t)1 << (64 - CANARY_SLACK_SHIFT), "the slack has 15 bits");

/* The bytes of the block that begins at a slot, all of them; 0 if none begins there. */
ALWAYS_INLINE size_t slot_block_size(struct extent *extent, const void *block)
{
    return slab_is_common(extent) ? common_block_size(extent, block) : extent->slab.slot_size;
}

#if MW_CANARY
ALWAYS_INLINE uint64_t canary_key(struct extent *extent, uintptr_t at)
{
    return extent->canary ^ at << 12; /* two bytes are known, see slab_choose_canary */
}

ALWAYS_INLINE size_t canary_large_size(struct extent *extent)
{
    return atomic_get(&extent->requested) & (((size_t)1 << LARGE_ALIGNMENT_SHIFT) - 1);
}

ALWAYS_INLINE uint8_t canary_large_family(struct extent *extent)
{
    return (uint8_t)(atomic_get(&extent->requested) >> LARGE_FAMILY_SHIFT);
}

/* One more than log2 of the alignment; 0 if it is not known. */
ALWAYS_INLINE uint8_t canary_large_alignment(struct extent *extent)
{
    return (uint8_t)(atomic_get(&extent->requested) >> LARGE_ALIGNMENT_SHIFT);
}

ALWAYS_INLINE void canary_set_large_size(struct extent *extent, size_t size)
{
    atomic_set(&extent->requested, size);
}

/* Whether a large block was freed, or its size is about to change. A sample may have no bytes: it is in the place of a
 * slot. */
ALWAYS_INLINE bool canary_large_is_left(struct extent *extent)
{
    return unlikely(atomic_get(&extent->requested) == 0) &&
           !(extent_is_sampled(extent) && extent->slab.sample_is_slot);
}

/* Nobody looks behind the block until its size is set again. Returns what canary_set_large_size
 * takes if the block stays as it was. */
ALWAYS_INLINE size_t canary_lift_large(struct extent *extent)
{
    size_t before = atomic_get(&extent->requested);
    canary_set_large_size(extent, 0);
    return before;
}

/* The same of several threads that free the block: the first gets what is not 0. */
ALWAYS_INLINE size_t canary_claim_large(struct extent *extent)
{
    return libc_has_one_thread() ? canary_lift_large(extent)
                                 : atomic_swap(&extent->requested, (size_t)0);
}

/* The block, which has got another size where it is, keeps its family and its alignment. */
ALWAYS_INLINE void canary_keep_large(struct extent *extent, size_t before)
{
    const size_t size_mask = ((size_t)1 << LARGE_ALIGNMENT_SHIFT) - 1;
    canary_set_large_size(extent, canary_large_size(extent) | (before & ~size_mask));
}

/* The block becomes malloc's, unless another thread has freed it meanwhile. One of no bytes is still held. */
ALWAYS_INLINE void canary_clear_large_family(struct extent *extent)
{
    size_t before = atomic_get(&extent->requested);
    size_t after = before & (((size_t)1 << LARGE_FAMILY_SHIFT) - 1);
    after = after != 0 ? after : LARGE_OF_NO_BYTES;
    if (before >> LARGE_FAMILY_SHIFT == 0) {
        return;
    }
    if (libc_has_one_thread()) {
        canary_set_large_size(extent, after);
    } else {
        (void)atomic_replace(&extent->requested, &before, after);
    }
}
#else
ALWAYS_INLINE uint64_t canary_key(struct extent *extent, uintptr_t at)
{
    return (uintptr_t)extent ^ at;
}

ALWAYS_INLINE size_t canary_large_size(struct extent *extent)
{
    return extent_size(extent);
}

ALWAYS_INLINE uint8_t canary_large_family(struct extent *extent)
{
    (void)extent;
    return 0;
}

ALWAYS_INLINE uint8_t canary_large_alignment(struct extent *extent)
{
    (void)extent;
    return 0;
}

ALWAYS_INLINE void canary_set_large_size(struct extent *extent, size_t size)
{
    (void)extent;
    (void)size;
}

ALWAYS_INLINE bool canary_large_is_left(struct extent *extent)
{
    (void)extent;
    return false;
}

ALWAYS_INLINE size_t canary_lift_large(struct extent *extent)
{
    (void)extent;
    return 0;
}

ALWAYS_INLINE size_t canary_claim_large(struct extent *extent)
{
    return canary_lift_large(extent);
}

ALWAYS_INLINE void canary_keep_large(struct extent *extent, size_t before)
{
    (void)extent;
    (void)before;
}

ALWAYS_INLINE void canary_clear_large_family(struct extent *extent)
{
    (void)extent;
}
#endif

/* Of the first eight bytes behind a block the bits that lie before `slack` bytes have passed. */
ALWAYS_INLINE uint64_t padding_mask(size_t slack)
{
    return slack >= PADDING_BYTES ? UINT64_MAX : ((uint64_t)1 << (8 * slack)) - 1;
}

ALWAYS_INLINE bool padding_is_whole(const char *end, size_t slack)
{
    return ((load_unaligned(end) ^ secrets.padding) & padding_mask(slack)) == 0;
}

/* Writes the padding of `slack` bytes in front of `end`: 8 bytes of it at the most, and nothing
 * at `end`. */
ALWAYS_INLINE void padding_place(char *end, size_t slack)
{
    if (likely(slack >= PADDING_BYTES)) {
        store_unaligned(end - slack, secrets.padding);
    } else if (slack != 0) {
        uint64_t mask = ~padding_mask(PADDING_BYTES - slack);
        char *at = end - PADDING_BYTES;
        store_unaligned(at, (load_unaligned(at) & ~mask) | (secrets.padding & mask));
    }
}

/* Sizes are mixed, and nobody can foretell whether the padding has its eight bytes or less: so
 * without a branch on that. The word that ends where the padding does is stored, and later
 * looked at, as a whole, and has as many bytes of the block in front as are left: a processor
 * hands on what was stored last by one store alone. */
ALWAYS_INLINE bool padding_ends_whole(const char *start, size_t slack)
{
    static const uint8_t mask[16] = {0,    0,    0,    0,    0,    0,    0,    0,
                                     0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff};
    size_t count = size_min(slack, PADDING_BYTES);
    uint64_t word = load_unaligned(start + count - PADDING_BYTES);
    return ((word ^ secrets.padding) & load_unaligned((const char *)mask + count)) == 0;
}

/* Writes the padding of `slack` bytes that begins at `start`, in a slot that has the fill: what
 * lies in front need not be kept. */
ALWAYS_INLINE void padding_place_new(char *start, size_t slack)
{
    if (FILL_FREE != 0) {
        padding_place(start + slack, slack);
    } else {
        size_t count = size_min(slack, PADDING_BYTES);
        store_unaligned(start + count - PADDING_BYTES,
                        load_unaligned((const char *)secrets.step + count));
    }
}

/* A slot's block of `block_size` bytes in all gets or changes its size. */
ALWAYS_INLINE void canary_place(struct extent *extent, void *block, size_t block_size, size_t size)
{
    if (MW_CANARY) {
        size_t capacity = block_size - CANARY_BYTES;
        uintptr_t at = (uintptr_t)block + capacity;
        check(size <= capacity && block_size <= SLOT_MAX);
        uint64_t slack = capacity - size;
        padding_place((char *)at, slack);
        /* At once, see canary_front_is_whole. */
        atomic_set((_Atomic uint64_t *)at, canary_key(extent, at) ^ slack << CANARY_SLACK_SHIFT);
    }
}

/* The same for a new block of a family, in a slot that has the fill. */
ALWAYS_INLINE void canary_place_new(struct extent *extent, void *block, size_t block_size,
                                    size_t size, uint8_t family)
{
    if (MW_CANARY) {
        size_t capacity = block_size - CANARY_BYTES;
        uintptr_t at = (uintptr_t)block + capacity;
        check(size <= capacity && block_size <= SLOT_MAX);
        uint64_t slack = capacity - size;
        padding_place_new((char *)block + size, slack);
        atomic_set((_Atomic uint64_t *)at, canary_key(extent, at) ^ slack << CANARY_SLACK_SHIFT ^
                                               (uint64_t)family << CANARY_FAMILY_SHIFT);
    }
}

/* Whether a slot's block was not written beyond its end, is of a family, and has the size `size`
 * if that is not SIZE_MAX. With all that is not 0 in a whole canary in the lowest bits one
 * comparison tells the first two. */
ALWAYS_INLINE bool canary_word_is_of(struct extent *extent, const void *block, size_t block_size,
                                     uint64_t word, uint8_t family, size_t size)
{
    const unsigned slack_bits = 64 - CANARY_SLACK_SHIFT;
    size_t capacity = block_size - CANARY_BYTES;
    uintptr_t at = (uintptr_t)block + capacity;
    uint64_t canary = word ^ canary_key(extent, at) ^ (uint64_t)family << CANARY_FAMILY_SHIFT;
    uint64_t slack = canary << slack_bits | canary >> CANARY_SLACK_SHIFT;
    return likely(slack <= capacity) &&
           likely(padding_ends_whole((const char *)at - slack, slack)) &&
           (size == SIZE_MAX || size == capacity - slack);
}

ALWAYS_INLINE bool canary_is_of(struct extent *extent, const void *block, size_t block_size,
                                uint8_t family, size_t size)
{
    uintptr_t at = (uintptr_t)block + block_size - CANARY_BYTES;
    return !MW_CANARY || canary_word_is_of(extent, block, block_size,
                                           *(const volatile uint64_t *)at, family, size);
}

/* The same for malloc's kin, of a block that others may free at the same moment: the first takes
 * the canary away and leaves the fill of a free slot, and no other finds one. If it is not as it
 * should be it is put back. */
ALWAYS_INLINE bool canary_take(struct extent *extent, void *block, size_t block_size)
{
    _Atomic uint64_t *at = (_Atomic uint64_t *)((uintptr_t)block + block_size - CANARY_BYTES);
    uint64_t word = atomic_swap(at, (uint64_t)FILL_FREE_WORD);
    bool is_whole = canary_word_is_of(extent, block, block_size, word, 0, SIZE_MAX);
    if (unlikely(!is_whole)) {
        atomic_set(at, word);
    }
    return is_whole;
}

/* What the program asked for, of a slot's block; CANARY_DAMAGED if it was written beyond that. */
ALWAYS_INLINE size_t canary_read(struct extent *extent, const void *block, size_t block_size)
{
    size_t capacity = block_size - CANARY_BYTES;
    uintptr_t at = (uintptr_t)block + capacity;
    uint64_t canary = load_unaligned((const char *)at) ^ canary_key(extent, at);
    size_t slack = canary >> CANARY_SLACK_SHIFT;
    if (unlikely((canary & CANARY_FIXED) != 0 || slack > capacity ||
                 !padding_is_whole((const char *)at - slack, slack))) {
        return CANARY_DAMAGED;
    }
    return capacity - slack;
}

/* Whether a slot was freed and its bit is still set, see slot.h. What lies above in the layers
 * knows; it looks at all heaps. */
static bool (*const slot_is_unsettled)(const void *slot);

/* Ends the program: a call found that it had written in front of a block. */
_Noreturn static COLD void canary_bad_front(const char *call, struct extent *extent,
                                            const void *block);

/* Whether another thread has freed or resized the slot whose canary, at `at`, was `word`, so
 * that the padding that was found is not what belongs to that. Else the slot is damaged: looks
 * so often that no such change is overlooked. */
static NOINLINE COLD bool front_padding_changes(struct extent *extent, const char *at,
                                                uint64_t word);

/* Whether the word in front of a slot of a medium class is what belongs there: the canary of the
 * slot in front, with the padding of the size that it tells, or, if that slot is free, its fill.
 * No thread ever leaves anything else in that word, so this looks at any time, whoever has the
 * slot in front. Nothing of ours is in front of the first slot. */
ALWAYS_INLINE bool canary_front_is_whole(struct extent *extent, const void *block)
{
    if (!MW_CANARY || extent->slab.slot_size <= SMALL_MAX || (uintptr_t)block == extent->start) {
        return true;
    }
    uintptr_t at = (uintptr_t)block - CANARY_BYTES;
    uint64_t word = *(const volatile uint64_t *)at;
    uint64_t canary = word ^ canary_key(extent, at);
    if (word == FILL_FREE_WORD) {
        return true;
    }
    uint64_t slack = canary >> CANARY_SLACK_SHIFT;
    return (canary & CANARY_FIXED) == 0 && slack <= extent->slab.slot_size - CANARY_BYTES &&
           (likely(padding_ends_whole((const char *)at - slack, slack)) ||
            front_padding_changes(extent, (const char *)at, word));
}

/* The family of a block that the program holds; what is no family if it was written beyond its
 * end. */
ALWAYS_INLINE uint8_t block_family(struct extent *extent, const void *block, size_t block_size)
{
    if (!extent_is_slab(extent)) {
        return extent_is_guarded(extent)
                   ? 0
                   : canary_large_family(extent); /* of those it is not kept */
    }
    uintptr_t at = (uintptr_t)block + block_size - CANARY_BYTES;
    uint64_t canary = load_unaligned((const char *)at) ^ canary_key(extent, at);
    return (uint8_t)(canary >> CANARY_FAMILY_SHIFT);
}

/* Changes the bits of the family that differ. The caller holds the block. */
ALWAYS_INLINE void block_change_family(struct extent *extent, void *block, size_t block_size,
                                       uint8_t difference)
{
    if (!extent_is_slab(extent)) {
        size_t size = canary_large_size(extent);
        uint8_t family = canary_large_family(extent) ^ difference;
        canary_set_large_size(extent, size | (size_t)family << LARGE_FAMILY_SHIFT);
        return;
    }
    char *at = (char *)block + block_size - CANARY_BYTES;
    store_unaligned(at, load_unaligned(at) ^ (uint64_t)difference << CANARY_FAMILY_SHIFT);
}

/* The same where a block of another family becomes malloc's: it is released, perhaps by several threads. */
ALWAYS_INLINE void block_clear_family(struct extent *extent, void *block, size_t block_size,
                                      uint8_t family)
{
    if (extent_is_slab(extent)) {
        block_change_family(extent, block, block_size, family);
    } else {
        canary_clear_large_family(extent);
    }
}

ALWAYS_INLINE uint8_t family_of(enum made made, size_t alignment)
{
    unsigned log2 = alignment != 0 ? floor_log2(alignment) : 0;
    return made_by_new(made) ? (uint8_t)((unsigned)made | log2 << 2) : 0;
}

/* A new block of `size` bytes keeps the alignment that it was asked for with. */
ALWAYS_INLINE void canary_note_alignment(struct extent *extent, void *block, size_t size,
                                         size_t alignment)
{
    uint64_t number = floor_log2(alignment) + 1u;
    if (!extent_is_slab(extent)) {
        canary_set_large_size(extent, size | number << LARGE_ALIGNMENT_SHIFT);
        return;
    }
    size_t capacity = slot_block_size(extent, block) - CANARY_BYTES;
    if (capacity - size >= 2 * PADDING_BYTES) {
        char *at = (char *)block + capacity - PADDING_BYTES;
        store_unaligned(at, secrets.padding ^ number << CANARY_FAMILY_SHIFT);
    }
}

/* The alignment of a block of `size` bytes, which is held and whole; 0 if it is not known. */
static COLD size_t canary_alignment(struct extent *extent, const void *block, size_t size);

/* What malloc's kin are called with must be theirs. */
ALWAYS_INLINE void block_check_family(const char *call, struct extent *extent, const void *block,
                                      size_t block_size, size_t size)
{
    if (MW_CANARY) {
        uint8_t family = block_family(extent, block, block_size);
        if (unlikely(family != 0)) {
            family_differs(call, block, size, family, 0);
            block_clear_family(extent, (void *)(uintptr_t)block, block_size, family);
        }
    }
}

/* The same for a large block. */
static void canary_place_large(struct extent *extent, size_t size);

/* The same of a new block; `is_zero`: all its pages are. */
static void canary_place_large_new(struct extent *extent, size_t size, bool is_zero);
static size_t canary_read_large(struct extent *extent);

/* A large block that the program gives back: the first thread that comes gets it. Ends the program for any other, if
 * it wrote beyond the block's end, and if the block is not for free. */
static void canary_take_large(struct extent *extent);

/* Ends the program: a call found that it had written beyond a block's end, or that the block is
 * free. */
_Noreturn static COLD void canary_bad(const char *call, struct extent *extent, const void *block);

/* Tells that a block is released with a size that it has not; returns with misuse:continue. */
static COLD void size_differs(const void *block, size_t size, size_t requested);

/* The same of an alignment; `kept` is the block's, or 0 if only its address tells. */
static COLD void alignment_differs(const void *block, size_t alignment, size_t size, size_t kept);

/* A free or delete of a slot's block is not as it should be, see canary_is_of: tells what it is,
 * and returns if it goes on. */
static NOINLINE COLD void canary_odd_free(struct extent *extent, void *block, uint8_t wanted,
                                          size_t size);

/* The size that the program asked for; ends it if it wrote beyond that. In the fast build what the
 * block has. */
ALWAYS_INLINE size_t block_requested(const char *call, struct extent *extent, const void *block)
{
    if (!MW_CANARY) {
        return extent_is_slab(extent) ? slot_block_size(extent, block)
                                      : whole_block_size(call, extent, block);
    }
    if (unlikely(extent_is_guarded(extent))) {
        return guarded_size(call, block);
    }
    size_t size = extent_is_slab(extent)
                      ? canary_read(extent, block, slot_block_size(extent, block))
                      : canary_read_large(extent);
    if (unlikely(size == CANARY_DAMAGED)) {
        canary_bad(call, extent, block);
    }
    return size;
}

/* A slot that the program gives back: ends it if it wrote beyond the block's end, or if the
 * block is not for free. */
ALWAYS_INLINE void canary_check_freed(struct extent *extent, const void *block)
{
    if (MW_CANARY) {
        size_t size = block_requested("free", extent, block);
        block_check_family("free", extent, block, slot_block_size(extent, block), size);
    }
}

#endif
