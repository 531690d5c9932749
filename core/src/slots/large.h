/* SPDX-License-Identifier: MIT
 *
 * Large blocks: over SLOT_MAX, a number of whole pages with an extent of their own. Up to LARGE_MAX
 * they come in page classes, so that a freed block fits the next request of about its size; what is
 * rounded up is address space until the program writes to it. Slabs take their pages by the same
 * classes.
 *
 *     class   0   1  ...  7   8   9  ...  15   16   17  ...  23   24  ...
 *     pages   1   2  ...  8   9  10  ...  16   18   20  ...  32   36  ...
 */
#ifndef MALLOW_LARGE_H
#define MALLOW_LARGE_H

#include "../arena/arena.h"
#include "../arena/fenced.h"
#include "rate.h"
#include "sizeclass.h"

/* With pages of 4 KiB the last class has LARGE_MAX; with larger pages fewer classes are used. */
#define PAGE_CLASSES 72u

/* The largest block that is cut from a region. */
#define LARGE_MAX HUGE_ABOVE

/* In builds that have guards a block of strength.fence_min bytes or more may be a mapping of its own with guards: as
 * large as was asked for, in pages. Those up to LARGE_MAX are so at a rate (rate.h): else, and below that size, they
 * come from the stacks.
 *
 * A block with guards pays for the calls of the kernel, and for its pages, of which only so much is counted: the rest
 * is paid when they are freed. */
#define FENCE_PRICE_OF_CALLS (64 * KiB)
#define FENCE_PRICE_OF_PAGES_MOST (2 * MiB)

ALWAYS_INLINE size_t fence_price(size_t size)
{
    return FENCE_PRICE_OF_CALLS + size_min(size, FENCE_PRICE_OF_PAGES_MOST);
}

/* Whether a block of so many bytes is to have guards now. */
ALWAYS_INLINE bool fence_is_due(size_t size)
{
    return MW_FENCES && size >= strength.fence_min &&
           rate_allows(RATE_OF_BLOCKS, fence_price(size));
}

/* The largest block that may lie in a list of the hit paths. */
#define LISTED_MAX LARGE_MAX

/* Pages for a size; the size is at most PTRDIFF_MAX. */
ALWAYS_INLINE size_t large_pages(size_t size)
{
    return (size + os_page_size - 1) >> os_page_shift;
}

/* The smallest class of at least `pages`, which are more than 0. */
ALWAYS_INLINE unsigned page_class_of(size_t pages)
{
    size_t last = pages - 1;
    unsigned shift = floor_log2(last | 8) - 3;
    return 8 * shift + (unsigned)(last >> shift);
}

/* The largest class of at most `pages`, which are more than 0. */
ALWAYS_INLINE unsigned page_class_below(size_t pages)
{
    unsigned shift = floor_log2(pages | 8) - 3;
    return 8 * shift + (unsigned)(pages >> shift) - 1;
}

ALWAYS_INLINE size_t page_class_pages(unsigned class)
{
    return class < 8 ? class + 1 : (size_t)(9 + class % 8) << (class / 8 - 1);
}

/* Block classes go on where the classes of slots end, in the same steps: the page classes of more than
 * 8 pages. So one computation leads from a size to the list of a heap, be it of slots or of blocks. With
 * larger pages the first of them are not used. */
#define BLOCK_CLASSES 64u
#define LIST_CLASSES (CLASSES + BLOCK_CLASSES)
#define PAGE_CLASS_LISTED 8u

/* The largest class whose blocks a stack gives to who wants some of this one and finds none: an eighth larger at most, from
 * ROOMY_MIN on three. With more of them, what is cached serves more requests, but small ones take the large blocks. */
#define ROOMY_MIN (64 * KiB)
#define ROOMY_CLASSES 3u

ALWAYS_INLINE unsigned page_class_roomy(unsigned class)
{
    size_t more = page_class_pages(class) << os_page_shift >= ROOMY_MIN ? ROOMY_CLASSES : 1;
    return class < PAGE_CLASS_LISTED ? class : (unsigned)size_min(class + more, PAGE_CLASSES - 1);
}

static_assert((size_t)(9 + (PAGE_CLASSES - 1) % 8) << ((PAGE_CLASSES - 1) / 8 - 1 + 12) ==
                  LARGE_MAX,
              "with pages of 4 KiB the last page class has LARGE_MAX");
static_assert(LIST_CLASSES == PAGEMAP_LISTS, "the page map has a number for each list");

#define SMALL_SIZE(i)             \
    ((i) == 0  ? (size_t)8        \
     : (i) < 9 ? (size_t)16 * (i) \
               : (size_t)(5 + ((i) + 3) % 4) << (((i) + 11) / 4))
#define MEDIUM_SIZE(i) ((size_t)(9 + (i) % 8) << (7 + (i) / 8))
#define RECIPROCAL(size) UINT64_MAX / (size) + 1
#define SMALL(i) \
    RECIPROCAL(SMALL_SIZE(i)), RECIPROCAL(SMALL_SIZE(i + 1)), RECIPROCAL(SMALL_SIZE(i + 2))
#define MEDIUM(i)                                                                               \
    RECIPROCAL(MEDIUM_SIZE(i)), RECIPROCAL(MEDIUM_SIZE(i + 1)), RECIPROCAL(MEDIUM_SIZE(i + 2)), \
        RECIPROCAL(MEDIUM_SIZE(i + 3))
#define ONES 1, 1, 1, 1, 1, 1, 1, 1

static_assert(SMALL_SIZE(9) == 160 && SMALL_SIZE(CLASS_OF_SMALL_MAX) == SMALL_MAX,
              "the steps of class_size");
static_assert(MEDIUM_SIZE(MEDIUM_CLASSES - 1) == SLOT_MAX, "the last class of slots has SLOT_MAX");
static_assert(MEDIUM_SIZE(0) == SMALL_MAX + SMALL_MAX / 8, "medium classes follow the small ones");

/* By list, what struct slab calls `reciprocal`. */
static const uint64_t list_reciprocals[LIST_CLASSES] = {
    SMALL(0),   SMALL(3),   SMALL(6),   SMALL(9),   SMALL(12),  SMALL(15),  SMALL(18),
    MEDIUM(0),  MEDIUM(4),  MEDIUM(8),  MEDIUM(12), MEDIUM(16), MEDIUM(20), MEDIUM(24),
    MEDIUM(28), MEDIUM(32), MEDIUM(36), ONES,       ONES,       ONES,       ONES,
    ONES,       ONES,       ONES,       ONES};

#undef SMALL_SIZE
#undef MEDIUM_SIZE
#undef RECIPROCAL
#undef SMALL
#undef MEDIUM
#undef ONES

ALWAYS_INLINE unsigned page_class_of_block(unsigned class)
{
    return class - CLASSES + PAGE_CLASS_LISTED - 8 * (os_page_shift - GRANULE_SHIFT);
}

ALWAYS_INLINE unsigned block_class_of(unsigned page_class)
{
    return page_class - PAGE_CLASS_LISTED + 8 * (os_page_shift - GRANULE_SHIFT) + CLASSES;
}

ALWAYS_INLINE bool page_class_is_listed(unsigned page_class)
{
    return page_class >= PAGE_CLASS_LISTED && block_class_of(page_class) < LIST_CLASSES;
}

/* Notes which list takes a large block that the program gets, or got with another size, when it is
 * freed. */
static void large_note_list(struct extent *extent);

/* Where a large block is counted: its page class, and from LARGE_MAX on one for each doubling. A block
 * that is a mapping of its own is counted by its size rounded up to a power of two. */
#define LARGE_CLASSES (PAGE_CLASSES + HUGE_SIZES)

ALWAYS_INLINE unsigned large_class_of(size_t pages, bool is_huge)
{
    size_t most = LARGE_MAX >> os_page_shift;
    if (!is_huge && pages <= most) {
        return page_class_of(pages);
    }
    size_t rounded = (size_t)1 << huge_size_of(pages);
    return rounded <= most ? page_class_of(rounded)
                           : PAGE_CLASSES + floor_log2(rounded) - floor_log2(most) - 1;
}

/* The most pages of a block that is counted there. Where pages are large, the last page classes have
 * none, because such blocks are huge: 0. */
ALWAYS_INLINE size_t large_class_pages(unsigned class)
{
    size_t most = LARGE_MAX >> os_page_shift;
    if (class >= PAGE_CLASSES) {
        return most << (class - PAGE_CLASSES + 1);
    }
    return page_class_pages(class) <= most ? page_class_pages(class) : 0;
}

/* The pages that a block of `size` bytes gets. */
ALWAYS_INLINE size_t large_rounded_pages(size_t size)
{
    size_t pages = size_max(large_pages(size), 1);
    return size <= LISTED_MAX ? page_class_pages(page_class_of(pages)) : pages;
}

/* Makes a large block longer or shorter without moving its bytes one by one; it may get another
 * address. False if it has to be copied. */
static bool large_try_resize(struct extent *extent, size_t size);

/* The same where the block is. */
static bool large_try_resize_in_place(struct extent *extent, size_t size);

/* The program frees a huge block: gives its pages back if a smaller part of them is resident, for the next owner would
 * write to others, and have both. Looks at one block in so many, until it finds such a one. */
static void large_leave_scattered(struct extent *extent);

/* Whether so little of a block that was used before is resident that the kernel can make it zero
 * at less cost than memset. */
static bool large_is_sparse(struct extent *extent);

#endif
