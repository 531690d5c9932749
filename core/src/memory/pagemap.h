/* SPDX-License-Identifier: MIT
 *
 * Address to descriptor: the way in which free, realloc and malloc_usable_size learn what a pointer
 * is. A radix tree of two levels, lock-free to read, a word per granule of 4 KiB:
 *
 *     address  | 46 ........ 29 | 28 ............ 12 | 11 .. 0 |
 *                root index        leaf index          (inside the granule)
 *
 * That is x86-64; where programs have 48 bits of address space the root has one bit more. Root, zero
 * leaf and the first leaf count in full for who locks its memory or has a limit on data, so the two
 * indices share the bits such that all three together are small.
 *
 * Every link is stored as a distance from `pagemap` itself, and the first thing in `pagemap` is a
 * leaf that stays all zero. So a missing root entry (distance 0) leads to that leaf, a missing word
 * (distance 0) leads to a descriptor of zeros, which no heap owns: the look-up needs no branch, and
 * unknown pointers leave the hit path at its one test of the owner.
 *
 * The granule is fixed, although pages may have 16 or 64 KiB, so that the hit path shifts by
 * constants. Words that are set: those of the first and of the last granule of every extent, and of
 * all granules of a slab.
 */
#ifndef MALLOW_PAGEMAP_H
#define MALLOW_PAGEMAP_H

#include "../base/atomic.h"
#include "../base/base.h"

#define GRANULE_SHIFT 12
#define GRANULE ((size_t)1 << GRANULE_SHIFT)
#define PAGEMAP_LEAF_BITS 17
#if defined(__x86_64__)
#define PAGEMAP_ROOT_BITS 18
#else
#define PAGEMAP_ROOT_BITS 19
#endif
#define PAGEMAP_LEAF_WORDS ((size_t)1 << PAGEMAP_LEAF_BITS)
#define PAGEMAP_ROOT_SHIFT (GRANULE_SHIFT + PAGEMAP_LEAF_BITS)
#define ADDRESS_LIMIT ((uintptr_t)1 << (PAGEMAP_ROOT_SHIFT + PAGEMAP_ROOT_BITS))

/* What a word tells beside the distance, so that free need not look at a descriptor to put a block into a
 * list of its heap:
 *
 *     | 63 | 62 ... 56 | 55 .... 48 | 47 ... 0 |
 *       1    its list    granule in   distance
 *                        the slab
 *
 * That is so where all that begins in the granule goes to one list: of slabs of a depot, and of the first
 * granule of a block of pages while it is of a size that has a list. All other words have zeros there, or
 * what the distance's sign makes of them. */
#define PAGEMAP_ADDRESS_BITS 48
#define PAGEMAP_LIST_SHIFT 56
#define PAGEMAP_LISTS 125u
#define PAGEMAP_GRANULES ((size_t)1 << (PAGEMAP_LIST_SHIFT - PAGEMAP_ADDRESS_BITS))

struct extent;

/* Only ever grows. Words are written by whoever owns the pages, or under the arena's lock. */
static struct {
    _Atomic uintptr_t zero_leaf[PAGEMAP_LEAF_WORDS]; /* const */
    _Atomic uintptr_t root[(size_t)1 << PAGEMAP_ROOT_BITS];
} pagemap IN_SECTION(pagemap) __attribute__((aligned(CACHE_LINE)));

/* Keeps the kernel from making a huge page of the few entries that a small program has. To be called before the
 * first is written. */
static void pagemap_load(void);

/* The descriptor of the extent that holds `address`, or pagemap_nothing(), and in the top 16 bits
 * what the word tells beside that. The top bits of the address are ignored. */
ALWAYS_INLINE uintptr_t pagemap_look(const void *address)
{
    char *base = (char *)&pagemap;
    opaque(base);
    uintptr_t at = (uintptr_t)address;
    size_t root_at = (at >> (PAGEMAP_ROOT_SHIFT - 3)) & ((sizeof pagemap.root - 1) & ~(size_t)7);
    size_t leaf_index = (at >> GRANULE_SHIFT) & (PAGEMAP_LEAF_WORDS - 1);
    _Atomic uintptr_t *root =
        (_Atomic uintptr_t *)(base + root_at + offsetof(__typeof__(pagemap), root));
    char *leaf = base + atomic_get_acquire(root); /* pairs with pagemap_cover */
    opaque(leaf);
    uintptr_t word = atomic_get((_Atomic uintptr_t *)leaf + leaf_index);
    return (uintptr_t)base + word;
}

ALWAYS_INLINE bool found_has_list(uintptr_t found)
{
    return MW_PAGEMAP_LISTS && (intptr_t)found < 0;
}

ALWAYS_INLINE unsigned found_list(uintptr_t found)
{
    return (unsigned)(found >> PAGEMAP_LIST_SHIFT) & 127;
}

/* From the start of the slab to `address`. */
ALWAYS_INLINE size_t found_distance(uintptr_t found, const void *address)
{
    const size_t granules = (PAGEMAP_GRANULES - 1) * GRANULE;
    return ((found >> (PAGEMAP_ADDRESS_BITS - GRANULE_SHIFT)) & granules) +
           ((uintptr_t)address & (GRANULE - 1));
}

ALWAYS_INLINE struct extent *found_extent(uintptr_t found)
{
    const unsigned rest = 64 - PAGEMAP_ADDRESS_BITS;
    return (struct extent *)(MW_PAGEMAP_LISTS ? found << rest >> rest : found);
}

/* The descriptor of the extent that holds `address`, or pagemap_nothing(). */
ALWAYS_INLINE struct extent *pagemap_find(const void *address)
{
    return found_extent(pagemap_look(address));
}

/* What pagemap_find says of memory that is not ours: a descriptor of zeros. */
ALWAYS_INLINE struct extent *pagemap_nothing(void)
{
    return (struct extent *)(char *)&pagemap;
}

/* Pages that were looked at and found to be no part of ours, for programs that free many blocks of
 * another allocator. Forgotten as soon as memory is mapped. */
static bool pagemap_knows_foreign(const void *address);
static uint32_t pagemap_generation(void);

/* `generation` is what it was before the look. */
static void pagemap_note_foreign(const void *address, uint32_t generation);

/* Makes the leaves for a range, so that setting words in it cannot fail. False if out of memory. */
static bool pagemap_cover(uintptr_t start, size_t size);

/* Whether there can be memory of ours near an address below ADDRESS_LIMIT: in what a root entry stands for. */
static bool pagemap_has_leaf(uintptr_t address);

/* Bytes of the leaves that have been made. */
static size_t pagemap_bytes(void);

/* Leaves taken from the OS beforehand, for a caller who learns the range when it is too late to
 * fail. */
struct pagemap_reserve {
    char *next;
    char *end;
};

static bool pagemap_reserve_take(struct pagemap_reserve *reserve, size_t size);
static void pagemap_reserve_drop(struct pagemap_reserve *reserve);

/* pagemap_cover of at most the size that was reserved for: cannot fail. */
static void pagemap_cover_reserved(uintptr_t start, size_t size, struct pagemap_reserve *reserve);

/* Sets the word of one granule; NULL clears it. The range must be covered. */
static void pagemap_set(uintptr_t address, struct extent *extent);

/* Sets the words of all granules of a range. */
static void pagemap_set_range(uintptr_t start, size_t size, struct extent *extent);

/* The same with the list that takes what begins in the range. */
static void pagemap_set_list(uintptr_t start, size_t size, struct extent *extent, unsigned list);

#endif
