/* SPDX-License-Identifier: MIT
 *
 * jemalloc's functions that take flags. A call that names an arena gets a direct block of it; one that
 * names a cache gets what lies there first. All others are served by the thread's own heap.
 */
#define MW_NO_JEMALLOC_NAMES
#include "../../include/mallow/jemalloc.h"
#include "cache.h"
#include "realloc.h"

#include <errno.h>

/* The fields of the flags. */
#define FLAG_LG_ALIGN 0x3f
#define FLAG_ZERO 0x40

#define FLAG_CACHE_SHIFT 8
#define FLAG_CACHE 0xfff
#define FLAG_ARENA_SHIFT 20

/* Nothing but alignment and zero: the common case. */
#define FLAGS_PLAIN 0x7f

/* In the place of the cache. */
#define CACHE_NONE 1u

ALWAYS_INLINE bool flags_are_plain(int flags)
{
    return (flags & ~FLAGS_PLAIN) == 0;
}

/* 0: none is named; CACHE_NONE; or the identity of a cache plus 2. */
ALWAYS_INLINE unsigned flags_cache(int flags)
{
    return (unsigned)flags >> FLAG_CACHE_SHIFT & FLAG_CACHE;
}

/* 0: none is named; or the number of an arena plus 1. */
ALWAYS_INLINE unsigned flags_arena(int flags)
{
    return (unsigned)flags >> FLAG_ARENA_SHIFT;
}

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
    /* Pages are aligned without a word, but where blocks are tracked, a free is compared with what was asked. */
    bool must_say = MW_TRACK || alignment > os_page_size || size <= SLOT_REQUEST_MAX;
    if (alignment > BLOCK_ALIGNMENT && must_say) {
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

static void *mallocx_of_arena(size_t alignment, size_t size, unsigned number, bool zero)
{
    bool is_zero = false;
    struct direct *direct = thread_direct_numbered(number);
    void *block = direct != NULL ? alloc_untracked(direct, alignment, size, &is_zero) : NULL;
    if (block == NULL) {
        return alloc_failed();
    }
    return zero && !is_zero ? memset(block, 0, mw_malloc_usable_size(block)) : block;
}

/* A block that lies in a cache; NULL if none does. */
static void *mallocx_of_cache(size_t alignment, size_t size, unsigned id, bool zero)
{
    process_init();
    struct cache *cache = cache_at(id);
    if (cache == NULL || alignment > os_page_size || size > SLOT_MAX ||
        align_up(size, alignment) > SLOT_MAX) {
        return NULL;
    }
    unsigned class = class_of_aligned(alignment, size);
    if (cache->list[class] == NULL) {
        return NULL;
    }
    void *block = alloc_in_place_of_cached(class, size);
    block = block != NULL ? block : cache_take(cache, class);
    check(((uintptr_t)block & (alignment - 1)) == 0);
    return block != NULL && zero ? memset(block, 0, mw_malloc_usable_size(block)) : block;
}

static NOINLINE void *mallocx_named(size_t size, int flags)
{
    size_t alignment = flags_alignment(flags);
    bool zero = (flags & FLAG_ZERO) != 0;
    unsigned arena = flags_arena(flags);
    if (arena != 0 && !thread_must_lack_direct(arena - 1)) {
        return mallocx_of_arena(alignment, size, arena - 1, zero);
    }
    void *block = arena == 0 && flags_cache(flags) > CACHE_NONE
                      ? mallocx_of_cache(alignment, size, flags_cache(flags) - 2, zero)
                      : NULL;
    return block != NULL ? block : mw_mallocx(size, flags & FLAGS_PLAIN);
}

void *mw_mallocx(size_t size, int flags)
{
    size_t alignment = flags_alignment(flags);
    size = size_of_request(size);
    if (unlikely(!flags_are_plain(flags))) {
        return mallocx_named(size, flags);
    }
    if (unlikely((flags & FLAG_ZERO) != 0)) {
        return mallocx_zeroed(alignment, size);
    }
    return alignment <= BLOCK_ALIGNMENT ? mw_malloc(size) : alloc_aligned(alignment, size);
}

/* Makes zero what the program finds new in a block that got another size: behind what the old one had, or, if
 * it was copied, behind what was. */
static void zero_new(void *block, size_t old_size, char *moved, size_t size)
{
    size_t kept = moved == block ? old_size : size_min(old_size, size);
    size_t new_size = mw_malloc_usable_size(moved);
    if (new_size > kept) {
        memset(moved + kept, 0, new_size - kept);
    }
}

/* Whether a block is aligned because of its size. A slot may be by chance, and a sample in its place always is: if
 * that sufficed, more samples would stay than other blocks. */
static bool block_is_aligned(const void *block, size_t alignment)
{
    struct extent *extent = pagemap_find(block);
    size_t slot_size = 0;
    if (extent_is_slab(extent)) {
        slot_size = slot_block_size(extent, block);
    } else if (extent_is_sampled(extent) && extent->slab.sample_is_slot) {
        slot_size = extent->sample_size;
    }
    return (((uintptr_t)block | slot_size) & (alignment - 1)) == 0;
}

/* The block that was copied. As nothing here is a jump to free, that would take us for the caller. */
static void rallocx_drop(void *block, int flags, uintptr_t caller)
{
    if (MW_TRACK) {
        tracked_free(block, &(struct track_return){"realloc", SIZE_MAX, 0, caller, 0});
    } else {
        mw_dallocx(block, flags);
    }
}

/* realloc cannot align: the block stays if it fits and is aligned already. A tracked one never does, as
 * it would have to be freed with the alignment that it was asked for with. */
static void *rallocx_aligned(void *block, size_t old_size, size_t alignment, size_t size,
                             uintptr_t caller)
{
    bool is_aligned = block_is_aligned(block, alignment);
    bool is_worth_it = mw_nallocx(size, MALLOCX_LG_ALIGN(floor_log2(alignment))) > old_size / 2;
    bool fits = !MW_TRACK && (MW_CANARY ? size == old_size : size <= old_size);
    if (is_aligned && fits && is_worth_it) {
        return block;
    }
    void *moved = alloc_aligned(alignment, size);
    if (moved != NULL) {
        bytes_copy(moved, block, size_min(old_size, size));
        rallocx_drop(block, 0, caller);
    }
    return moved;
}

/* As rallocx_drop: realloc too would take us for the caller. */
static void *rallocx_plain(void *block, size_t size, uintptr_t caller)
{
    bool is_tracked = MW_TRACK && size <= PTRDIFF_MAX && tracked_knows(block);
    return is_tracked ? tracked_realloc(block, size, caller) : mw_realloc(block, size);
}

/* Whether a block of the program is ours, and its size, which may be 0: where blocks are as large as was asked for. */
static bool block_of_program(const void *block, size_t *size)
{
    *size = block_held_size("rallocx", block);
    return *size != 0 || pagemap_find(block) != pagemap_nothing();
}

/* rallocx where a copy comes from the arena or the cache that is named. */
static NOINLINE void *rallocx_named(void *block, size_t size, int flags, uintptr_t caller)
{
    size_t old_size;
    if (!block_of_program(block, &old_size)) {
        return mw_realloc(block, size); /* what is done with it the option `foreign` says */
    }
    size_t alignment = flags_alignment(flags);
    bool is_aligned = block_is_aligned(block, alignment);
    char *moved = NULL;
    bool may_stay = !MW_TRACK || !tracked_knows(block);
    if (may_stay && size <= PTRDIFF_MAX && is_aligned && alignment <= os_page_size) {
        moved = block_try_resize(block, pagemap_find(block), size);
    }
    if (moved == NULL) {
        moved = mw_mallocx(size, flags & ~FLAG_ZERO);
        if (moved == NULL) {
            return NULL;
        }
        bytes_copy(moved, block, size_min(old_size, size));
        rallocx_drop(block, flags, caller);
    }
    if ((flags & FLAG_ZERO) != 0) {
        zero_new(block, old_size, moved, size);
    }
    return moved;
}

void *mw_rallocx(void *block, size_t size, int flags)
{
    if (block == NULL) {
        return mw_mallocx(size, flags);
    }
    uintptr_t caller = MW_TRACK ? PROGRAM_PC : 0;
    if (unlikely(!flags_are_plain(flags))) {
        return rallocx_named(block, size_of_request(size), flags, caller);
    }
    size_t alignment = flags_alignment(flags);
    size_t old_size;
    bool is_ours = block_of_program(block, &old_size);
    size = size_of_request(size);
    /* What realloc does with a foreign block the option `foreign` says. */
    char *moved = alignment <= BLOCK_ALIGNMENT || !is_ours
                      ? rallocx_plain(block, size, caller)
                      : rallocx_aligned(block, old_size, alignment, size, caller);
    if (unlikely((flags & FLAG_ZERO) != 0) && moved != NULL && is_ours) {
        zero_new(block, old_size, moved, size);
    }
    return moved;
}

/* What the program finds new in a block that has got larger where it is. */
static void xallocx_fill(void *block, size_t old_size, size_t size, int flags)
{
    fill_grown(block, old_size, size);
    if ((flags & FLAG_ZERO) != 0 && size > old_size) {
        memset((char *)block + old_size, 0, size - old_size);
    }
}

/* Where blocks are tracked, one may get as long as its slot, or its pages. */
static size_t xallocx_tracked(void *block, size_t size, size_t extra, int flags)
{
    size_t old_size = mw_malloc_usable_size(block);
    size_t most = extra <= PTRDIFF_MAX - size_min(size, PTRDIFF_MAX) ? size + extra : PTRDIFF_MAX;
    size_t new_size = tracked_resize(block, size, most);
    xallocx_fill(block, old_size, new_size, flags);
    return new_size;
}

size_t mw_xallocx(void *block, size_t size, size_t extra, int flags)
{
    size_t old_size = block_held_size("xallocx", block);
    struct extent *extent = pagemap_find(block);
    bool is_aligned = ((uintptr_t)block & (flags_alignment(flags) - 1)) == 0;
    if (MW_TRACK && tracked_knows(block)) {
        return old_size != 0 && is_aligned ? xallocx_tracked(block, size, extra, flags) : old_size;
    }
    /* A sample in the place of a slot keeps its size as slots do, and one that counts with less than it has, as well. */
    bool is_fixed = extent_is_slab(extent) || extent_is_guarded(extent) ||
                    (extent_is_sampled(extent) &&
                     (extent->slab.sample_is_slot || extent->sample_size != extent_size(extent)));
    if (old_size == 0 || is_fixed || !is_aligned || size > PTRDIFF_MAX) {
        return old_size;
    }
    size_t most = extra <= PTRDIFF_MAX - size_min(size, PTRDIFF_MAX) ? size + extra : PTRDIFF_MAX;
    if (!block_try_resize_in_place(extent, most) && size > old_size) {
        block_try_resize_in_place(extent, size);
    }
    size_t new_size = block_requested("xallocx", extent, block);
    xallocx_fill(block, old_size, new_size, flags);
    if (new_size != old_size) {
        thread_count_resize(old_size, new_size);
    }
    return new_size;
}

size_t mw_sallocx(const void *block, int flags)
{
    (void)flags;
    return mw_malloc_usable_size(block);
}

/* Which arena is named does not matter: a block goes back to where it came from. */
static NOINLINE void dallocx_named(void *block, int flags)
{
    unsigned named = flags_cache(flags);
    if (named == CACHE_NONE && !MW_TRACK) {
        free_uncached(block);
        return;
    }
    struct cache *cache = named != 0 ? cache_at(named - 2) : NULL;
    if (cache == NULL || block == NULL || !cache_put(cache, block)) {
        mw_free(block);
    }
}

void mw_dallocx(void *block, int flags)
{
    if (unlikely(!flags_are_plain(flags))) {
        dallocx_named(block, flags);
        return;
    }
    mw_free(block);
}

/* In jemalloc a block may be released with another alignment than it was allocated with, or none, if its size is the
 * same with that. */
void mw_sdallocx(void *block, size_t size, int flags)
{
    if (!MW_TRACK) {
        free_check_size(block, flags_alignment(flags), size);
        mw_dallocx(block, flags);
    } else if (flags_alignment(flags) <= BLOCK_ALIGNMENT) {
        mw_free_sized(block, size);
    } else {
        mw_free_aligned_sized(block, flags_alignment(flags), size);
    }
}

size_t mw_nallocx(size_t size, int flags)
{
    size_t alignment = flags_alignment(flags);
    process_init(); /* for the page size */
    size = size_of_request(size);
    if (!alloc_is_possible(alignment, size)) {
        return 0;
    }
    if (MW_CANARY || MW_TRACK || guards_are_on()) {
        return size; /* what sallocx will say, and the program may use */
    }
    if (alignment <= os_page_size && size <= SLOT_MAX && align_up(size, alignment) <= SLOT_MAX) {
        return class_size(class_of_aligned(alignment, size));
    }
    return large_rounded_pages(size) << os_page_shift;
}
