/* SPDX-License-Identifier: MIT */
#include "canary.h"

#include "../os/fault.h"

#include <string.h>

/* With guards up to the end of the page, where the next one traps. At the very end of the pages there is
 * no room for all of the padding. */
static size_t padding_bytes(struct extent *extent, size_t size)
{
    size_t most = extent_has_fence(extent) ? -size & (os_page_size - 1) : PADDING_BYTES;
    return size_min(extent_size(extent) - size, most);
}

/* Not by memset: where a processor's stores leave bytes out (AVX-512), one that ends in a page without access takes
 * some 200 cycles, even for no bytes at all. */
static void padding_place_large(char *start, size_t slack)
{
    if (slack <= PADDING_BYTES) {
        padding_place(start + slack, slack);
        return;
    }
    for (size_t at = 0; at < slack - PADDING_BYTES; at += PADDING_BYTES) {
        store_unaligned(start + at, secrets.padding);
    }
    store_unaligned(start + slack - PADDING_BYTES, secrets.padding);
}

static bool padding_of_large_is_whole(const char *start, size_t slack)
{
    if (slack == 0) {
        return true; /* in front of a block of 0 bytes is no word to be looked at */
    }
    return slack <= PADDING_BYTES ? padding_ends_whole(start, slack)
                                  : fill_differs((const unsigned char *)start, slack,
                                                 (unsigned char)secrets.padding) == slack;
}

/* At the end of a large block's pages lies what is written in front of the next block. NULL if there are guards behind
 * them, or no room. */
#define LARGE_TAIL (2 * sizeof(uint64_t))

static char *large_tail(struct extent *extent, size_t size)
{
    bool has_tail = extent_size(extent) - size >= LARGE_TAIL && !extent_has_fence(extent);
    return has_tail ? (char *)extent_end(extent) - LARGE_TAIL : NULL;
}

/* Known bytes there would make a page resident that the block does not need. So of such a page its descriptor keeps
 * what is there. */
static bool large_tail_is_kept(struct extent *extent, size_t size)
{
    return unlikely(extent_size(extent) - size >= os_page_size);
}

static uint64_t large_tail_word(const char *tail)
{
    uint64_t last = load_unaligned(tail + sizeof(uint64_t));
    return load_unaligned(tail) ^ (last << 1 | last >> 63);
}

/* Writes again what is there: the kernel may take a page away that was only read since it was given MADV_FREE. */
static void large_tail_renew(char *tail)
{
    uint64_t first = load_unaligned(tail);
    uint64_t last = load_unaligned(tail + sizeof(uint64_t));
    opaque(first);
    opaque(last);
    store_unaligned(tail, first);
    store_unaligned(tail + sizeof(uint64_t), last);
}

ALWAYS_INLINE void large_tail_place(struct extent *extent, size_t size, bool is_zero)
{
    char *tail = large_tail(extent, size);
    if (tail == NULL) {
        return;
    }
    if (large_tail_is_kept(extent, size)) {
        /* What is zero is not looked at: the page may not be there. */
        if (!is_zero && large_tail_word(tail) != 0) {
            large_tail_renew(tail);
        }
        atomic_set(&extent->tail, is_zero ? 0 : large_tail_word(tail));
        return;
    }
    store_unaligned(tail, secrets.padding);
    store_unaligned(tail + sizeof(uint64_t), secrets.padding);
}

static bool large_tail_is_whole(struct extent *extent, size_t size)
{
    const char *tail = large_tail(extent, size);
    if (tail != NULL && large_tail_is_kept(extent, size)) {
        return atomic_get(&extent->tail) == large_tail_word(tail);
    }
    return tail == NULL || (load_unaligned(tail) == secrets.padding &&
                            load_unaligned(tail + sizeof(uint64_t)) == secrets.padding);
}

ALWAYS_INLINE void large_place(struct extent *extent, size_t size, bool is_zero)
{
    check(extent_state(extent) == EXTENT_ACTIVE && size <= extent_size(extent));
    size_t slack = padding_bytes(extent, size);
    padding_place_large((char *)extent->start + size, slack);
    large_tail_place(extent, size, is_zero);
    canary_set_large_size(extent, size);
    check_slow(canary_read_large(extent) == size);
}

static void canary_place_large(struct extent *extent, size_t size)
{
    if (MW_CANARY) {
        large_place(extent, size, false);
    }
}

static void canary_place_large_new(struct extent *extent, size_t size, bool is_zero)
{
    if (MW_CANARY && is_zero) {
        large_place(extent, size, true);
    } else {
        canary_place_large(extent, size);
    }
}

static bool large_is_whole(struct extent *extent, size_t size)
{
    size_t slack = padding_bytes(extent, size);
    return padding_of_large_is_whole((const char *)extent->start + size, slack) &&
           large_tail_is_whole(extent, size);
}

static size_t canary_read_large(struct extent *extent)
{
    size_t size = canary_large_size(extent);
    if (!MW_CANARY || unlikely(size > extent_size(extent) || extent_is_hollow(extent))) {
        return size;
    }
    bool is_whole = !canary_large_is_left(extent) && large_is_whole(extent, size);
    return is_whole ? size : CANARY_DAMAGED;
}

static void canary_take_large(struct extent *extent)
{
    const void *block = (const void *)extent->start;
    size_t before = canary_claim_large(extent);
    size_t size = before & (((size_t)1 << LARGE_ALIGNMENT_SHIFT) - 1);
    uint8_t family = (uint8_t)(before >> LARGE_FAMILY_SHIFT);
    if (unlikely(before == 0 && canary_large_is_left(extent))) {
        harden_bad_block("free", extent, block);
    }
    if (unlikely(size > extent_size(extent) || !large_is_whole(extent, size))) {
        canary_set_large_size(extent, before); /* to be told of */
        canary_bad("free", extent, block);
    }
    if (unlikely(family != 0)) {
        family_differs("free", block, size, family, 0);
    }
}

static COLD size_t canary_alignment(struct extent *extent, const void *block, size_t size)
{
    if (!MW_CANARY || extent_is_hollow(extent) || extent_is_guarded(extent)) {
        return 0;
    }
    uint64_t number = canary_large_alignment(extent);
    if (extent_is_slab(extent)) {
        size_t capacity = slot_block_size(extent, block) - CANARY_BYTES;
        const char *at = (const char *)block + capacity - PADDING_BYTES;
        uint64_t word = load_unaligned(at) ^ secrets.padding;
        bool is_noted = capacity - size >= 2 * PADDING_BYTES && (word & CANARY_FIXED) == 0;
        number = is_noted ? word >> CANARY_FAMILY_SHIFT : 0;
    }
    return number != 0 && number <= LARGE_ALIGNMENT_SHIFT ? (size_t)1 << (number - 1) : 0;
}

static COLD void size_differs(const void *block, size_t size, size_t requested)
{
    struct fault fault = fault_of_live("free_sized", block, requested);
    fault.kind = FAULT_SIZE_MISMATCH;
    fault_tell(&fault, "free of %p with a size of %zu bytes, but the block has %zu", block, size,
               requested);
}

static COLD void alignment_differs(const void *block, size_t alignment, size_t size, size_t kept)
{
    struct fault fault = fault_of_live("free_aligned_sized", block, size);
    fault.kind = FAULT_ALIGNMENT_MISMATCH;
    if (kept != 0) {
        fault_tell(&fault, "free of %p with an alignment of %zu, but the block has %zu", block,
                   alignment, kept);
        return;
    }
    fault_tell(&fault,
               "free of %p (%zu bytes) with an alignment of %zu bytes, which it does not have",
               block, size, alignment);
}

static NOINLINE COLD void canary_odd_free(struct extent *extent, void *block, uint8_t wanted,
                                          size_t size)
{
    const char *call = made_release((enum made)(wanted & 3));
    size_t requested = block_requested(call, extent, block);
    uint8_t family = block_family(extent, block, slot_block_size(extent, block));
    if (size != SIZE_MAX && size != requested) {
        size_differs(block, size, requested);
    }
    if (family != wanted) {
        family_differs(call, block, requested, family, wanted);
    }
}

/* Who has just taken the canary away needs a moment until it is known who, and longer if it does not run. */
#define TAKER_LOOKS 1000u
#define TAKER_NAPS 100u
#define TAKER_NAP_MS 2u

static COLD bool slot_was_taken(struct extent *extent, const void *block)
{
    const char *at = (const char *)block + slot_block_size(extent, block) - CANARY_BYTES;
    unsigned naps = libc_has_one_thread() ? 0 : TAKER_NAPS;
    for (unsigned i = 0; i < TAKER_LOOKS + naps && load_unaligned(at) == FILL_FREE_WORD; i++) {
        if (slot_is_unsettled(block)) {
            return true;
        }
        if (i < TAKER_LOOKS) {
            cpu_relax();
        } else {
            os_nap(TAKER_NAP_MS);
        }
    }
    return slot_is_unsettled(block);
}

/* The lowest bytes of a whole canary, which say nothing of the block. */
#define CANARY_FIXED_BYTES (CANARY_FAMILY_SHIFT / 8)

/* What was written behind a block of `size` bytes, seen from its start. Of what runs on beyond the fixed bytes of the
 * canary nobody can say where it ends: it has no length. */
static COLD struct written written_behind(const void *block, size_t size, size_t padding,
                                          uint64_t canary)
{
    unsigned char bytes[sizeof canary];
    memcpy(bytes, &canary, sizeof canary);
    struct written found = fill_find_written(bytes, 0, CANARY_FIXED_BYTES, 0);
    if (found.length == 0) {
        return fill_find_written(block, size, size + padding, (unsigned char)secrets.padding);
    }
    bool runs_on = found.at + found.length == CANARY_FIXED_BYTES;
    return (struct written){size + found.at, runs_on ? 0 : found.length};
}

/* What is written there belongs to nobody: the block behind it is as likely to be at fault. */
_Noreturn static COLD void canary_bad_tail(const char *call, struct extent *extent,
                                           const void *block, size_t size)
{
    size_t from = extent_size(extent) - LARGE_TAIL;
    struct fault fault = fault_of_live(call, block, size);
    fault.kind = FAULT_OVERFLOW;
    fault.has_offset = true;
    fault.offset = (long)from;
    if (!large_tail_is_kept(extent, size)) {
        struct written found =
            fill_find_written(block, from, from + LARGE_TAIL, (unsigned char)secrets.padding);
        fault.offset = (long)found.at;
        fault.length = found.length;
    }
    fault_report(&fault,
                 "overflow of %p (%zu bytes), or underflow of the block behind it, found by %s: "
                 "the bytes between them were overwritten",
                 block, size, call);
}

_Noreturn static COLD void canary_bad(const char *call, struct extent *extent, const void *block)
{
    if (extent_is_slab(extent) ? slot_was_taken(extent, block) : canary_large_is_left(extent)) {
        harden_bad_block(call, extent, block);
    }
    size_t size = canary_large_size(extent);
    uint64_t canary = 0;
    size_t padding = 0;
    const char *most = "";
    if (!extent_is_slab(extent)) {
        padding = padding_bytes(extent, size);
        if (padding_of_large_is_whole((const char *)block + size, padding)) {
            canary_bad_tail(call, extent, block, size);
        }
    } else {
        size_t capacity = slot_block_size(extent, block) - CANARY_BYTES;
        uintptr_t at = (uintptr_t)block + capacity;
        canary = load_unaligned((const char *)at) ^ canary_key(extent, at);
        size_t slack = canary >> CANARY_SLACK_SHIFT;
        bool is_known = (canary & CANARY_FIXED) == 0 && slack <= capacity;
        size = is_known ? capacity - slack : capacity;
        padding = is_known ? size_min(slack, PADDING_BYTES) : 0;
        most = is_known ? "" : "at most ";
    }
    struct fault fault = fault_of_live(call, block, size);
    fault.kind = FAULT_OVERFLOW;
    fault.has_offset = true;
    struct written found = written_behind(block, size, padding, canary);
    fault.offset = (long)found.at;
    fault.length = found.length;
    fault_report(&fault,
                 "overflow of %p (%s%zu bytes), found by %s: the bytes behind it were overwritten",
                 block, most, size, call);
}

/* Where there are other threads with naps between them: their stores may be seen late, and in another order. */
#define FRONT_LOOKS 20u

/* A free clears the bit or takes the canary before it fills the slot, and a resize writes the padding before the canary:
 * so what is found each time, in a slot that is held, is damage. */
static NOINLINE COLD bool front_padding_changes(struct extent *extent, const char *at,
                                                uint64_t word)
{
    size_t slack = (word ^ canary_key(extent, (uintptr_t)at)) >> CANARY_SLACK_SHIFT;
    for (unsigned i = 0; i < FRONT_LOOKS; i++) {
        uint64_t now = *(const volatile uint64_t *)(const void *)at;
        if (now != word || !slot_number_is_held(extent, slab_index(extent, at)) ||
            padding_ends_whole(at - slack, slack)) {
            return true;
        }
        if (!libc_has_one_thread()) {
            os_nap(TAKER_NAP_MS);
        }
    }
    return false;
}

_Noreturn static COLD void canary_bad_front(const char *call, struct extent *extent,
                                            const void *block)
{
    size_t size = block_requested(call, extent, block);
    struct fault fault = fault_of_live(call, block, size);
    fault.kind = FAULT_UNDERFLOW;
    fault.has_offset = true;
    fault.offset = -(long)CANARY_BYTES;
    fault_report(&fault,
                 "underflow of %p (%zu bytes), or overflow of the block in front of it, found by "
                 "%s: the bytes between them were overwritten",
                 block, size, call);
}
