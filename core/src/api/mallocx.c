/* SPDX-License-Identifier: MIT
 *
 * jemalloc's functions that take flags. Which arena and which cache a call names does not matter:
 * the thread's own heap serves it.
 */
#define MW_NO_JEMALLOC_NAMES
#include "../../include/mallow/jemalloc.h"
#include "free.h"

/* The fields of the flags. */
#define FLAG_LG_ALIGN 0x3f
#define FLAG_ZERO 0x40

ALWAYS_INLINE size_t flags_alignment(int flags)
{
    return (size_t)1 << (flags & FLAG_LG_ALIGN);
}

/* A block of no bytes is undefined in jemalloc; here it is one byte long. */
ALWAYS_INLINE size_t size_of_request(size_t size)
{
    return size + (size == 0);
}

/* Zero to the end of what may be used: where a block grows later, that end is where new bytes
 * begin. */
static void *mallocx_zeroed(size_t alignment, size_t size)
{
    if (alignment > BLOCK_ALIGNMENT && (alignment > os_page_size || size <= SLOT_MAX)) {
        void *block = alloc_aligned(alignment, size);
        return block != NULL ? memset(block, 0, mw_malloc_usable_size(block)) : NULL;
    }
    char *block = mw_calloc(1, size);
    size_t usable = mw_malloc_usable_size(block);
    if (usable > size) {
        memset(block + size, 0, usable - size);
    }
    return block;
}

void *mw_mallocx(size_t size, int flags)
{
    size_t alignment = flags_alignment(flags);
    size = size_of_request(size);
    if (unlikely((flags & FLAG_ZERO) != 0)) {
        return mallocx_zeroed(alignment, size);
    }
    return alignment <= BLOCK_ALIGNMENT ? mw_malloc(size) : alloc_aligned(alignment, size);
}

/* realloc cannot align: the block stays if it fits and happens to be aligned. */
static void *rallocx_aligned(void *block, size_t old_size, size_t alignment, size_t size)
{
    bool is_aligned = ((uintptr_t)block & (alignment - 1)) == 0;
    bool is_worth_it = mw_nallocx(size, MALLOCX_LG_ALIGN(floor_log2(alignment))) > old_size / 2;
    if (is_aligned && size <= old_size && is_worth_it) {
        return block;
    }
    void *moved = alloc_aligned(alignment, size);
    if (moved != NULL) {
        memcpy(moved, block, size_min(old_size, size));
        mw_free(block);
    }
    return moved;
}

void *mw_rallocx(void *block, size_t size, int flags)
{
    if (block == NULL) {
        return mw_mallocx(size, flags);
    }
    size_t alignment = flags_alignment(flags);
    size_t old_size = block_held_size("rallocx", block);
    size = size_of_request(size);
    /* What realloc does with a foreign block the option `foreign` says. */
    char *moved = alignment <= BLOCK_ALIGNMENT || old_size == 0
                      ? mw_realloc(block, size)
                      : rallocx_aligned(block, old_size, alignment, size);
    if (unlikely((flags & FLAG_ZERO) != 0) && moved != NULL && old_size != 0) {
        size_t new_size = mw_malloc_usable_size(moved);
        if (new_size > old_size) {
            memset(moved + old_size, 0, new_size - old_size);
        }
    }
    return moved;
}

size_t mw_xallocx(void *block, size_t size, size_t extra, int flags)
{
    size_t old_size = block_held_size("xallocx", block);
    struct extent *extent = pagemap_find(block);
    bool is_aligned = ((uintptr_t)block & (flags_alignment(flags) - 1)) == 0;
    if (old_size == 0 || extent_is_slab(extent) || extent_is_sampled(extent) || !is_aligned) {
        return old_size;
    }
    size_t most = extra <= PTRDIFF_MAX - size_min(size, PTRDIFF_MAX) ? size + extra : PTRDIFF_MAX;
    if (!large_try_resize_in_place(extent, most) && size > old_size) {
        large_try_resize_in_place(extent, size);
    }
    size_t new_size = extent_size(extent);
    if ((flags & FLAG_ZERO) != 0 && new_size > old_size) {
        memset((char *)block + old_size, 0, new_size - old_size);
    }
    thread_count_resize(old_size, new_size);
    return new_size;
}

size_t mw_sallocx(const void *block, int flags)
{
    (void)flags;
    return mw_malloc_usable_size(block);
}

void mw_dallocx(void *block, int flags)
{
    (void)flags;
    mw_free(block);
}

void mw_sdallocx(void *block, size_t size, int flags)
{
    mw_free_aligned_sized(block, flags_alignment(flags), size);
}

size_t mw_nallocx(size_t size, int flags)
{
    size_t alignment = flags_alignment(flags);
    process_init(); /* for the page size */
    size = size_of_request(size);
    if (!alloc_is_possible(alignment, size)) {
        return 0;
    }
    if (alignment <= os_page_size && align_up(size, alignment) <= SLOT_MAX) {
        return class_size(class_of_aligned(alignment, size));
    }
    return large_rounded_pages(size) << os_page_shift;
}
