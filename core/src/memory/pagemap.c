/* SPDX-License-Identifier: MIT */
#include "pagemap.h"

#include "../base/check.h"
#include "meta.h"
#include "../os/os.h"

#define PAGEMAP_LEAF_BYTES (PAGEMAP_LEAF_WORDS * sizeof(uintptr_t))

/* How often memory was mapped. */
static _Atomic uint32_t pagemap_mapped;

static _Atomic uint32_t pagemap_leaves;

static bool pagemap_has_leaf(uintptr_t address)
{
    check(address < ADDRESS_LIMIT);
    return atomic_get(&pagemap.root[address >> PAGEMAP_ROOT_SHIFT]) != 0;
}

static size_t pagemap_bytes(void)
{
    return atomic_get(&pagemap_leaves) * PAGEMAP_LEAF_BYTES;
}

/* A page's number and the lower bits of the generation in which it was found to be foreign. */
#define FOREIGN_PAGES 256u
#define FOREIGN_GENERATION_BITS (64 - (PAGEMAP_LEAF_BITS + PAGEMAP_ROOT_BITS))
static _Atomic uint64_t foreign_pages[FOREIGN_PAGES] IN_SECTION(pagemap_foreign);

static uint64_t foreign_word(const void *address, uint32_t generation)
{
    uint64_t page = (uintptr_t)address >> GRANULE_SHIFT;
    return page << FOREIGN_GENERATION_BITS |
           (generation & (((uint32_t)1 << FOREIGN_GENERATION_BITS) - 1));
}

static _Atomic uint64_t *foreign_place(const void *address)
{
    return &foreign_pages[((uintptr_t)address >> GRANULE_SHIFT) % FOREIGN_PAGES];
}

static uint32_t pagemap_generation(void)
{
    return atomic_get_acquire(&pagemap_mapped); /* pairs with pagemap_cover */
}

static bool pagemap_knows_foreign(const void *address)
{
    return atomic_get(foreign_place(address)) == foreign_word(address, pagemap_generation());
}

static void pagemap_note_foreign(const void *address, uint32_t generation)
{
    atomic_set(foreign_place(address), foreign_word(address, generation));
}

static void pagemap_load(void)
{
    uintptr_t start = align_up((uintptr_t)pagemap.root, os_page_size);
    uintptr_t end = (uintptr_t)(pagemap.root + array_count(pagemap.root)) & ~(os_page_size - 1);
    os_refuse_huge_pages((void *)start, end - start);
}

/* Makes `leaf` the one for a root entry, unless another thread was faster. */
static bool pagemap_install(size_t index, char *leaf)
{
    check(index < array_count(pagemap.root) && ((uintptr_t)leaf & (os_page_size - 1)) == 0);
    uintptr_t expected = 0;
    /* pairs with pagemap_find */
    if (!atomic_replace(&pagemap.root[index], &expected, (uintptr_t)(leaf - (char *)&pagemap))) {
        return false;
    }
    meta_count_bytes(PAGEMAP_LEAF_BYTES);
    atomic_add(&pagemap_leaves, 1);
    return true;
}

/* Where leaves are to be of huge pages, two share one: the second waits here. */
static _Atomic(char *) spare_leaf;
static_assert(2 * PAGEMAP_LEAF_BYTES == META_HUGE, "two leaves are a huge page");

static void leaf_drop(char *leaf)
{
    char *other = meta_wants_huge() ? atomic_swap(&spare_leaf, leaf) : leaf;
    if (other != NULL) {
        os_unmap(other, PAGEMAP_LEAF_BYTES);
    }
}

/* A leaf is hardly used: of one that lies beside other memory nothing is to become part of a huge page. */
static char *leaf_make_small(void)
{
    char *leaf = os_map(NULL, PAGEMAP_LEAF_BYTES);
    if (leaf != NULL) {
        os_refuse_huge_pages(leaf, PAGEMAP_LEAF_BYTES);
    }
    return leaf;
}

static char *leaf_make(void)
{
    if (likely(!meta_wants_huge())) {
        return leaf_make_small();
    }
    char *leaf = atomic_swap(&spare_leaf, NULL);
    if (leaf == NULL) {
        leaf = os_map_aligned(NULL, META_HUGE, META_HUGE);
        if (leaf == NULL) {
            return leaf_make_small();
        }
        meta_ask_for_huge(leaf, META_HUGE);
        leaf_drop(leaf + PAGEMAP_LEAF_BYTES);
    }
    return leaf;
}

static bool pagemap_cover(uintptr_t start, size_t size)
{
    if (start + size > ADDRESS_LIMIT || start + size < start) {
        return false;
    }
    atomic_fetch_add_explicit(&pagemap_mapped, 1, memory_order_release);
    size_t last = (start + size - 1) >> PAGEMAP_ROOT_SHIFT;
    for (size_t index = start >> PAGEMAP_ROOT_SHIFT; index <= last; index++) {
        /* Read as if to write: the first look at this page takes one fault instead of two. */
        if (atomic_add(&pagemap.root[index], 0) != 0) {
            continue;
        }
        char *leaf = leaf_make();
        if (leaf == NULL) {
            return false;
        }
        if (!pagemap_install(index, leaf)) {
            leaf_drop(leaf);
        }
    }
    return true;
}

static bool pagemap_reserve_take(struct pagemap_reserve *reserve, size_t size)
{
    /* A range may touch one leaf more at each end. */
    size_t bytes = ((size >> PAGEMAP_ROOT_SHIFT) + 2) * PAGEMAP_LEAF_BYTES;
    reserve->next = os_map(NULL, bytes);
    reserve->end = reserve->next + bytes;
    return reserve->next != NULL;
}

static void pagemap_reserve_drop(struct pagemap_reserve *reserve)
{
    check(reserve->next <= reserve->end);
    if (reserve->next != reserve->end) {
        os_unmap(reserve->next, (size_t)(reserve->end - reserve->next));
    }
}

static void pagemap_cover_reserved(uintptr_t start, size_t size, struct pagemap_reserve *reserve)
{
    check(size != 0 && start + size <= ADDRESS_LIMIT);
    atomic_fetch_add_explicit(&pagemap_mapped, 1, memory_order_release);
    size_t last = (start + size - 1) >> PAGEMAP_ROOT_SHIFT;
    for (size_t index = start >> PAGEMAP_ROOT_SHIFT; index <= last; index++) {
        check(reserve->next < reserve->end || atomic_get(&pagemap.root[index]) != 0);
        if (atomic_get(&pagemap.root[index]) == 0 && pagemap_install(index, reserve->next)) {
            reserve->next += PAGEMAP_LEAF_BYTES;
        }
    }
}

ALWAYS_INLINE _Atomic uintptr_t *pagemap_word(uintptr_t address)
{
    uintptr_t leaf = atomic_get_acquire(&pagemap.root[address >> PAGEMAP_ROOT_SHIFT]);
    check(leaf != 0 && address < ADDRESS_LIMIT && address % GRANULE == 0);
    return (_Atomic uintptr_t *)((char *)&pagemap + leaf) +
           ((address >> GRANULE_SHIFT) & (PAGEMAP_LEAF_WORDS - 1));
}

ALWAYS_INLINE uintptr_t pagemap_distance(struct extent *extent)
{
    return extent != NULL ? (uintptr_t)((char *)extent - (char *)&pagemap) : 0;
}

static void pagemap_set(uintptr_t address, struct extent *extent)
{
    /* pairs with nothing on the hit path, where the program's own hand-over orders it, but with
     * neighbours of another arena that look at the descriptor */
    atomic_set_release(pagemap_word(address), pagemap_distance(extent));
}

static void pagemap_set_range(uintptr_t start, size_t size, struct extent *extent)
{
    check(size % GRANULE == 0 && start + size >= start);
    uintptr_t distance = pagemap_distance(extent);
    for (uintptr_t at = start; at < start + size; at += GRANULE) {
        atomic_set_release(pagemap_word(at), distance); /* as pagemap_set */
    }
}

static void pagemap_set_list(uintptr_t start, size_t size, struct extent *extent, unsigned list)
{
    check(size % GRANULE == 0 && size <= PAGEMAP_GRANULES * GRANULE && list < PAGEMAP_LISTS);
    uintptr_t word = pagemap_distance(extent);
    if (MW_PAGEMAP_LISTS) {
        word += (uintptr_t)(128 + list) << PAGEMAP_LIST_SHIFT;
    }
    for (size_t at = 0; at < size; at += GRANULE) {
        atomic_set_release(pagemap_word(start + at), word); /* as pagemap_set */
        word += MW_PAGEMAP_LISTS ? (uintptr_t)1 << PAGEMAP_ADDRESS_BITS : 0;
    }
}
