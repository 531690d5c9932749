/* SPDX-License-Identifier: MIT */
#include "fence.h"

/* Fences that have guards of mappings of their own. */
static _Atomic uint32_t fences_protected;

static size_t fence_bytes(uint32_t pages)
{
    return (size_t)pages << os_page_shift;
}

/* Takes access away; notes how. */
static bool fence_guard(struct fence *fence, char *start, size_t size)
{
    bool is_first = (fence->ways & GUARD_PROTECTED) == 0;
    if (is_first && atomic_get(&fences_protected) >= FENCES_PROTECTED_MOST) {
        return false;
    }
    unsigned way = os_guard(start, size);
    if ((way & GUARD_PROTECTED) != 0 && is_first) {
        atomic_add(&fences_protected, 1);
    }
    fence->ways = (uint8_t)(fence->ways | way);
    return way != 0;
}

/* Guards on both sides of `size` bytes, as many as the kernel has room for. */
static void fence_close_ends(struct fence *fence, char *start, size_t size)
{
    if (fence->front != 0) {
        fence_guard(fence, start - fence_bytes(fence->front), fence_bytes(fence->front));
    }
    fence_guard(fence, start + size, fence_bytes(fence->tail));
}

static uint32_t fence_front_pages(size_t alignment)
{
    if (alignment > os_page_size) {
        return alignment <= FENCE_ALIGNMENT_MAX ? (uint32_t)(alignment >> os_page_shift) : 0;
    }
    return 1 + random_below(random_bits(), FENCE_FRONT_MOST);
}

/* Anywhere in a part of the address space that is chosen when the first block comes, so that few pages of
 * the page map are needed. Far behind a block there is mostly nothing, then, and nobody can tell where
 * the next one is. */
static void *fence_place(void)
{
    static _Atomic uintptr_t window;
    uintptr_t start = atomic_get(&window);
    if (start == 0) {
        start = align_up((random_bits() & (FENCE_PLACE_LIMIT - 1)) + 1, FENCE_WINDOW);
        atomic_set(&window, start);
    }
    size_t pages = FENCE_WINDOW >> os_page_shift;
    return (void *)(start +
                    ((uintptr_t)random_below(random_bits(), (uint32_t)pages) << os_page_shift));
}

static char *fence_map(size_t size, size_t alignment, struct fence *fence)
{
    *fence = (struct fence){0};
    if (!MW_FENCES) {
        return os_map_aligned(NULL, size, alignment);
    }
    uint32_t front = fence_front_pages(alignment);
    size_t total = fence_bytes(front) + size + os_page_size;
    char *base = total > size ? os_map_aligned(fence_place(), total, alignment) : NULL;
    if (base == NULL) {
        return os_map_aligned(NULL, size, alignment); /* there is no room for more */
    }
    *fence = (struct fence){.front = front, .tail = 1};
    char *start = base + fence_bytes(front);
    fence_close_ends(fence, start, size);
    check(((uintptr_t)start & (alignment - 1)) == 0);
    return start;
}

/* So many are known: who frees a block twice mostly does so soon. */
#define LEFT_PLACES 64u

#define LEFT_SIZE_BITS 28

/* Both in pages. */
static struct {
    _Atomic uint32_t count;
    _Atomic uint64_t places[LEFT_PLACES]; /* 63 .. 28 where it began, 27 .. 0 its size */
} fences_left;

static void fence_note_left(const void *start, size_t size)
{
    uint64_t pages = size_min(size >> os_page_shift, ((size_t)1 << LEFT_SIZE_BITS) - 1);
    uint32_t at = atomic_add(&fences_left.count, 1) % LEFT_PLACES;
    atomic_set(&fences_left.places[at],
               (uint64_t)(uintptr_t)start >> os_page_shift << LEFT_SIZE_BITS | pages);
}

/* A tracked block lies somewhere in its extent. */
static COLD bool fence_left(const void *block)
{
    uintptr_t page = (uintptr_t)block >> os_page_shift;
    bool may_begin = MW_TRACK || (uintptr_t)block == page << os_page_shift;
    for (unsigned i = 0; may_begin && i < LEFT_PLACES; i++) {
        uint64_t place = atomic_get(&fences_left.places[i]);
        uint64_t pages = place & (((uint64_t)1 << LEFT_SIZE_BITS) - 1);
        if (page - (place >> LEFT_SIZE_BITS) < (MW_TRACK ? pages : pages != 0)) {
            return !os_is_readable(page << os_page_shift);
        }
    }
    return false;
}

static bool fence_unmap(void *start, size_t size, struct fence *fence)
{
    size_t front = fence_bytes(fence->front);
    if (!os_unmap((char *)start - front, front + size + fence_bytes(fence->tail))) {
        return false;
    }
    fence_note_left(start, size);
    if ((fence->ways & GUARD_PROTECTED) != 0) {
        atomic_sub(&fences_protected, 1);
    }
    /* A block without a fence shares fence_none, which is never written to. */
    if (fence->tail != 0) {
        *fence = (struct fence){0};
    }
    return true;
}

/* The kernel moves one mapping, not the three that protected guards make. */
static bool fence_open_to_move(struct fence *fence, char *start, size_t size)
{
    size_t front = fence_bytes(fence->front);
    size_t tail = fence_bytes(fence->tail);
    return (fence->ways & GUARD_PROTECTED) != 0
               ? os_unguard(start - front, front + size + tail, fence->ways)
               : os_unguard(start + size, tail, fence->ways);
}

static char *fence_try_remap(struct extent *extent, size_t size)
{
    char *start = (char *)extent->start;
    size_t old_size = extent_size(extent);
    if (!extent_has_fence(extent)) {
        return os_remap(start, old_size, size);
    }
    struct fence *fence = extent_fence(extent);
    size_t front = fence_bytes(fence->front);
    size_t old_total = front + old_size + fence_bytes(fence->tail);
    size_t total = front + size + os_page_size;
    check(fence->tail != 0 && size > old_size);
    if (!fence_open_to_move(fence, start, old_size)) {
        return NULL;
    }
    fence->is_cut = false;
    char *moved = os_remap(start - front, old_total, size_max(total, old_total));
    if (moved == NULL) {
        fence_close_ends(fence, start, old_size);
        return NULL;
    }
    fence->tail = (uint32_t)((size_max(total, old_total) - front - size) >> os_page_shift);
    if ((fence->ways & GUARD_PROTECTED) != 0) {
        fence_close_ends(fence, moved + front, size);
    } else {
        fence_guard(fence, moved + front + size, fence_bytes(fence->tail));
    }
    return moved + front;
}

static char *fence_remap(struct extent *extent, size_t size)
{
    char *moved = fence_try_remap(extent, size);
    if (moved != NULL) {
        fence_note_left((const void *)extent->start, extent_size(extent));
    }
    return moved;
}

static bool fence_has_room(struct extent *extent, size_t pages)
{
    return pages < extent_pages(extent) + extent_fence(extent)->tail;
}

static bool fence_resize(struct extent *extent, size_t pages)
{
    struct fence *fence = extent_fence(extent);
    size_t old_pages = extent_pages(extent);
    char *end = (char *)extent_end(extent);
    check(extent_has_fence(extent) && fence->tail != 0 && pages != old_pages);
    if (pages > old_pages) {
        uint32_t more = (uint32_t)(pages - old_pages);
        check(fence_has_room(extent, pages));
        if (fence->tail - more > 1 && !fence_guard(fence, end + fence_bytes(more), os_page_size)) {
            return false;
        }
        /* To give access that is there takes the kernel a look at each page. */
        size_t shut = fence->is_cut ? os_page_size : fence_bytes(more);
        if (!os_unguard(end, shut, fence->ways)) {
            fence->is_cut = false;
            return false;
        }
        fence->tail -= more;
        return true;
    }
    uint32_t less = (uint32_t)(old_pages - pages);
    if (!fence_guard(fence, end - fence_bytes(less), fence_bytes(less))) {
        return false;
    }
    fence->tail += less;
    fence->is_cut = false;
    return true;
}

static bool fence_cut(struct extent *extent, size_t pages)
{
    struct fence *fence = extent_fence(extent);
    check(extent_has_fence(extent) && fence->tail != 0 && pages < extent_pages(extent));
    if (!fence_guard(fence, (char *)extent->start + (pages << os_page_shift), os_page_size)) {
        return false;
    }
    fence->is_cut = fence->tail == 1;
    fence->tail += (uint32_t)(extent_pages(extent) - pages);
    return true;
}

static bool fence_shut(struct extent *extent)
{
    return fence_guard(extent_fence(extent), (char *)extent->start, extent_size(extent));
}

static bool fence_open(struct extent *extent)
{
    return os_unguard((void *)extent->start, extent_size(extent), extent_fence(extent)->ways);
}

static bool fence_reopen(struct extent *extent)
{
    struct fence *fence = extent_fence(extent);
    check(!extent_has_fence(extent));
    if (!fence_open(extent) && !os_map_over((void *)extent->start, extent_size(extent))) {
        return false;
    }
    if ((fence->ways & GUARD_PROTECTED) != 0) {
        atomic_sub(&fences_protected, 1);
    }
    fence->ways = 0;
    return true;
}
