/* SPDX-License-Identifier: MIT */
#include "hollow.h"

#include "../memory/meta.h"
#include "made.h"

#define HOLLOW_WORDS 1024u
#define HOLLOW_BYTES ((size_t)HOLLOW_WORDS * 64 * HOLLOW_STRIDE)

/* Words of the bits that are looked at for a free one. */
#define HOLLOW_TRIES 4u

static_assert(HOLLOW_BYTES % (64 * KiB) == 0, "whole pages everywhere");

struct hollow {
    struct extent extent;                /* what the page map says of the range */
    _Atomic uint64_t live[HOLLOW_WORDS]; /* atomic: the program holds the block */
};

enum hollow_state { HOLLOW_NOT_MADE, HOLLOW_MAKING, HOLLOW_READY };

/* Whoever makes it MAKING makes the range. In the child of a fork just then, or where the kernel had
 * none, it stays so. */
static _Atomic uint8_t hollow_state; /* atomic: enum hollow_state */
static struct hollow *hollow;        /* const once READY */

/* The range lies in no region, so nobody but its blocks leads to it. */
static struct hollow *hollow_make(void)
{
    struct hollow *made = meta_alloc(sizeof *made);
    char *start = made != NULL ? os_map(NULL, HOLLOW_BYTES) : NULL;
    if (start == NULL) {
        return NULL;
    }
    if (!os_protect(start, HOLLOW_BYTES) || !pagemap_cover((uintptr_t)start, HOLLOW_BYTES)) {
        os_unmap(start, HOLLOW_BYTES);
        return NULL;
    }
    struct extent *extent = &made->extent;
    extent->start = (uintptr_t)start;
    extent->is_huge = true;
    atomic_set(&extent->pages, (uint32_t)(HOLLOW_BYTES >> os_page_shift));
    extent_make_plain(extent);
    atomic_set(&extent->owner, OWNER_HOLLOW);
    atomic_set(&extent->state, EXTENT_ACTIVE);
    atomic_set(&made->live[0], 1); /* no block: the start of an extent is one of another kind */
    pagemap_set_range(extent->start, HOLLOW_BYTES, extent);
    return made;
}

static bool hollow_is_ready(void)
{
    uint8_t state = atomic_get_acquire(&hollow_state); /* pairs with itself */
    if (likely(state == HOLLOW_READY)) {
        return true;
    }
    if (state == HOLLOW_MAKING || !atomic_replace(&hollow_state, &state, HOLLOW_MAKING)) {
        return false;
    }
    hollow = hollow_make();
    if (hollow != NULL) {
        atomic_set_release(&hollow_state, HOLLOW_READY); /* pairs with itself */
    }
    return hollow != NULL;
}

static NOINLINE void *hollow_take(void)
{
    if (!hollow_is_ready()) {
        return NULL;
    }
    for (unsigned i = 0; i < HOLLOW_TRIES; i++) {
        uint64_t choice = random_bits();
        uint32_t word = (uint32_t)(choice >> 8) % HOLLOW_WORDS;
        uint64_t old = atomic_get(&hollow->live[word]);
        unsigned turn = choice % 64;
        uint64_t turned = old >> turn | old << (-turn % 64);
        if (turned == UINT64_MAX) {
            continue;
        }
        unsigned bit = (turn + (unsigned)__builtin_ctzll(~turned)) % 64;
        uint64_t mask = (uint64_t)1 << bit;
        old = atomic_fetch_or_explicit(&hollow->live[word], mask, memory_order_relaxed);
        if ((old & mask) == 0) {
            return (void *)(hollow->extent.start + ((size_t)word * 64 + bit) * HOLLOW_STRIDE);
        }
    }
    return NULL;
}

/* Ends the program: the pointer is no hollow block that it holds. */
_Noreturn static COLD void hollow_bad(const char *call, const void *block)
{
    if ((uintptr_t)block % HOLLOW_STRIDE != 0) {
        fault_simple(FAULT_MISALIGNED_FREE, call, block,
                     "%s of %p, which is not where a block of 0 bytes begins", call, block);
    }
    if (call_releases(call)) {
        fault_simple(FAULT_DOUBLE_FREE, call, block, "double free of %p (0 bytes)", block);
    }
    fault_simple(FAULT_DOUBLE_FREE, call, block, "%s of %p (0 bytes), which is free", call, block);
}

/* The number of a block; of what is none, that of the start, which nobody holds. */
static uint32_t hollow_number(const void *block)
{
    uintptr_t distance = (uintptr_t)block - hollow->extent.start;
    check(distance < HOLLOW_BYTES);
    return distance % HOLLOW_STRIDE == 0 ? (uint32_t)(distance / HOLLOW_STRIDE) : 0;
}

static bool hollow_holds(const void *block)
{
    uint32_t number = hollow_number(block);
    uint64_t word = atomic_get(&hollow->live[number / 64]);
    return number != 0 && (word >> (number % 64) & 1) != 0;
}

static NOINLINE bool hollow_is_held(const char *call, const void *block)
{
    if (unlikely(!hollow_holds(block))) {
        hollow_bad(call, block);
    }
    return true;
}

static NOINLINE void hollow_free(const void *block)
{
    uint32_t number = hollow_number(block);
    uint64_t bit = (uint64_t)1 << (number % 64);
    uint64_t old = bit;
    if (number != 0) {
        old = atomic_fetch_and_explicit(&hollow->live[number / 64], ~bit, memory_order_relaxed);
    }
    if (unlikely(number == 0 || (old & bit) == 0)) {
        hollow_bad("free", block);
    }
}

#undef HOLLOW_WORDS
#undef HOLLOW_BYTES
#undef HOLLOW_TRIES
