/* SPDX-License-Identifier: MIT
 *
 *   mw_realloc  a slot: stays, or is copied by malloc and free                                hit
 *     realloc_other       a block of pages: stays                                             hit
 *     realloc_slow        NULL, size 0, foreign blocks, and all other blocks of ours
 *       block_try_resize  where the block is, or by moving page tables
 *       realloc_copy      else
 */
#include "realloc.h"

static NOINLINE void *realloc_other(void *block, uintptr_t found, size_t size);
static NOINLINE void *realloc_slow(void *block, struct extent *extent, size_t size);
static NOINLINE void *realloc_slot(void *block, size_t usable, size_t size);
static NOINLINE void *realloc_copy(void *block, size_t old_size, size_t size);

/* Whether a slot is kept for a new size: it fits and wastes less than half. */
static bool slot_still_fits(size_t usable, size_t size)
{
    return size <= usable && (size > usable / 2 || usable <= 16);
}

/* Strings and vectors that grow. Whatever their sizes, the one branch that cannot be foretold is on whether the slot is
 * kept. */
HIT_PATH void *mw_realloc(void *block, size_t size)
{
    uintptr_t found = pagemap_look(block);
    struct extent *extent = found_extent(found);
    size_t usable = extent->slab.slot_size;
    if (MW_TRACK || MW_SLOT_BITMAP || unlikely(size == 0) || unlikely(usable == 0) ||
        unlikely(!slab_has_slot_at(extent, block)) || unlikely(slab_is_common(extent))) {
        return realloc_other(block, found, size);
    }
    return slot_still_fits(usable, size) ? block : realloc_slot(block, usable, size);
}

/* Whether a block of pages is kept for a new size: it takes as many. */
ALWAYS_INLINE bool pages_still_fit(struct extent *extent, const void *block, size_t size)
{
    return (uintptr_t)block == extent->start && extent_state(extent) == EXTENT_ACTIVE &&
           size > SLOT_REQUEST_MAX && large_rounded_pages(size) == extent_pages(extent);
}

HIT_PATH static NOINLINE void *realloc_other(void *block, uintptr_t found, size_t size)
{
    struct extent *extent = found_extent(found);
    if (found_has_list(found) && unlikely(heap_self->free[found_list(found)] == block)) {
        harden_bad_block("realloc", extent, block);
    }
    bool stays =
        found_has_list(found) && !extent_is_slab(extent) && pages_still_fit(extent, block, size);
    return likely(stays) ? block : realloc_slow(block, extent, size);
}

/* --- Slow path -------------------------------------------------------------------------------- */

/* Where blocks end with padding that is looked at, they are as large as was asked for. */
#define REALLOC_LEARNS (!MW_CANARY && !MW_TRACK)

/* A program that makes its blocks smaller and then larger again pays for a copy each time, as the pages at their
 * ends go to others meanwhile, who cut all that is free into pieces. So when a block grows that had been made
 * smaller, the next that are to become smaller are not cut: they stay as they are or move, if little of them would
 * be used. That holds for SHRINKS_TO_KEEP slots, and for blocks of pages until what they keep is SHRINKS_WORTH times
 * what had grown; one whose pages were kept before, for it or for whoever had them, costs no more. Where nothing
 * grows again (a vector that is cut to its size) every page goes back. */
#define SHRINKS_TO_KEEP 128u
#define SHRINKS_WORTH 4u

/* Smaller slots are cheap to copy. */
#define SHRINK_KEEP_MIN (1 * KiB)

/* Up to this size a block is kept for more than an eighth of it, larger ones for more than half. */
#define SHRINK_EIGHTH_MAX LARGE_MAX

/* Larger blocks are cut all the same: what they would keep is too much, and so is what would be copied. */
#define SHRINK_KEEP_MAX (64 * MiB)

static bool shrink_is_worth_keeping(size_t usable, size_t size)
{
    return size > usable / (usable <= SHRINK_EIGHTH_MAX ? 8 : 2);
}

/* Whether the slot that is to become smaller is one of those that are kept. */
static bool shrink_of_slot_is_kept(void)
{
    struct heap *heap = thread_enter();
    bool is_kept = heap->shrinks_to_keep > 0;
    heap->shrinks_to_keep -= is_kept;
    thread_leave(heap);
    return is_kept;
}

/* The same for a block of pages, of which so many more are kept than it needs. */
static bool shrink_of_pages_is_kept(size_t pages)
{
    struct heap *heap = thread_enter();
    bool is_kept = pages <= heap->shrink_pages_to_keep;
    heap->shrink_pages_to_keep -= is_kept ? (uint32_t)pages : 0;
    thread_leave(heap);
    return is_kept;
}

/* A block that had become smaller grows by so many pages. */
static void shrinks_begin_to_be_kept(size_t pages)
{
    struct heap *heap = thread_enter();
    size_t worth = size_min(pages * SHRINKS_WORTH, UINT32_MAX);
    heap->shrinks_to_keep = SHRINKS_TO_KEEP;
    heap->shrink_pages_to_keep = (uint32_t)size_max(heap->shrink_pages_to_keep, worth);
    thread_leave(heap);
}

static bool realloc_keeps_slot(size_t usable, size_t size)
{
    return REALLOC_LEARNS && size < usable && usable >= SHRINK_KEEP_MIN &&
           shrink_of_slot_is_kept() && shrink_is_worth_keeping(usable, size);
}

/* Of a slot that does not fit. */
static NOINLINE void *realloc_slot(void *block, size_t usable, size_t size)
{
    return realloc_keeps_slot(usable, size) ? block : realloc_copy(block, usable, size);
}

/* A block of these sizes that realloc copies in order to make it larger is being built in small steps if that was so
 * before, or if what comes on top of its slot is at most one part of BUILD_STEP: it gets room for this share of its
 * size, so that not every step is a copy (as in tcmalloc, where every block gets it). Smaller ones are many, and cheap
 * to copy. */
#define BUILD_MIN (1 * KiB)
#define BUILD_MAX (1 * MiB)
#define BUILD_STEP 16u
#define BUILD_SHARE 4u

static uint32_t realloc_mark(const void *block)
{
    return (uint32_t)((uintptr_t)block / BLOCK_ALIGNMENT);
}

static size_t realloc_room(const void *block, size_t old_size, size_t size)
{
    if (!REALLOC_LEARNS || size <= old_size || old_size < BUILD_MIN || old_size > BUILD_MAX) {
        return size;
    }
    struct heap *heap = thread_enter();
    bool is_built = heap->built == realloc_mark(block) || size - old_size <= old_size / BUILD_STEP;
    if (heap->shrunk == realloc_mark(block)) { /* it grows again */
        heap->shrinks_to_keep = SHRINKS_TO_KEEP;
    }
    thread_leave(heap);
    return is_built ? size_max(size, old_size + old_size / BUILD_SHARE) : size;
}

static void realloc_note_copy(const void *block, size_t size, bool is_larger)
{
    /* A smaller block is not asked for, see realloc_room. */
    if (REALLOC_LEARNS && size > BUILD_MIN / 2) {
        struct heap *heap = thread_enter();
        *(is_larger ? &heap->built : &heap->shrunk) = realloc_mark(block);
        thread_leave(heap);
    }
}

/* Without memory for another block: making one smaller never fails. */
static COLD void *realloc_stays(void *block, size_t size)
{
    struct extent *extent = pagemap_find(block);
    if (extent_is_guarded(extent)) {
        thread_count_resize(guarded_size("realloc", block), size);
        guarded_shrink(block, size);
    } else if (!MW_CANARY) {
        return block;
    } else if (extent_is_slab(extent)) {
        canary_place(extent, block, slot_block_size(extent, block), size);
    } else {
        canary_place_large(extent, size);
    }
    return block;
}

static NOINLINE void *realloc_copy(void *block, size_t old_size, size_t size)
{
    size_t room = realloc_room(block, old_size, size);
    void *moved = mw_malloc(room);
    if (unlikely(moved == NULL && room > size)) {
        moved = mw_malloc(size);
    }
    if (unlikely(moved == NULL)) {
        return size <= old_size ? realloc_stays(block, size) : NULL;
    }
    check(moved != block && mw_malloc_usable_size(moved) >= size);
    bytes_copy(moved, block, size_min(old_size, size));
    mw_free(block);
    realloc_note_copy(moved, size, size > old_size);
    return moved;
}

static _Atomic size_t zero_reallocs_count;

static size_t zero_reallocs(void)
{
    return atomic_get(&zero_reallocs_count);
}

static COLD void *realloc_to_zero(void *block, uintptr_t caller)
{
    atomic_add(&zero_reallocs_count, 1);
    switch (option(OPTION_zero_realloc)) {
    case ZERO_REALLOC_ABORT:
        fault_simple(FAULT_MISUSE, "realloc", block,
                     "realloc of %p to 0 bytes, and zero_realloc is abort", block);
    case ZERO_REALLOC_ALLOC:
        return MW_TRACK && tracked_knows(block) ? tracked_realloc(block, 1, caller)
                                                : mw_realloc(block, 1);
    default:
        if (MW_TRACK) {
            tracked_free(block, &(struct track_return){"realloc", SIZE_MAX, 0, caller, 0});
        } else {
            mw_free(block);
        }
        return NULL;
    }
}

/* A block of pages that got another size is another block to a profile. */
static void realloc_sample(struct extent *extent, size_t size)
{
    if (likely(!profile_is_wanted())) {
        return;
    }
    struct heap *heap = thread_enter();
    if (extent_is_direct(extent) ? heap_chooses_samples(heap) : heap_is_sampling(heap)) {
        heap_maybe_sample(heap, extent, size);
    }
    thread_leave(heap);
}

/* A block that is counted in another class from now on counts as freed and allocated anew. */
static void realloc_note_class(struct extent *extent, unsigned before)
{
    unsigned class = large_class_of(extent_pages(extent), extent->is_huge);
    if (class != before && !extent_is_direct(extent)) { /* whose pool counts for itself */
        struct heap *heap = thread_enter();
        heap->large_counts[class]++;
        thread_leave(heap);
    }
}

static bool realloc_pages(struct extent *extent, size_t size)
{
    size_t old_size = large_block_size(extent);
    bool is_direct = extent_is_direct(extent);
    unsigned before = large_class_of(extent_pages(extent), extent->is_huge);
    if (unlikely(extent_is_sampled(extent))) {
        if (old_size != extent_size(extent)) {
            return false; /* if it had to stay, it would no longer count with its size */
        }
        sample_drop(extent);
    }
    if (!(is_direct ? direct_try_resize(extent, size, false) : large_try_resize(extent, size))) {
        return false;
    }
    realloc_sample(extent, size);
    thread_count_resize(old_size, large_block_size(extent));
    realloc_note_class(extent, before);
    return true;
}

static void realloc_note_growth(struct extent *extent, size_t size)
{
    if (extent->shrunk != SHRUNK_NEVER && size > extent_size(extent)) {
        if (extent->shrunk != SHRUNK_ROOMY) {
            shrinks_begin_to_be_kept(large_rounded_pages(size) - extent_pages(extent));
        }
        extent->shrunk = SHRUNK_NEVER;
    }
}

/* Whether malloc might have given this very block for so many pages. What it takes out of a list has the mark that it had
 * before, also where it is of the next class (magazine_may_replace): that much any block may have that was not made
 * smaller. */
static bool pages_are_roomy(struct extent *extent, size_t wanted)
{
    bool is_roomy = extent->shrunk == SHRUNK_ROOMY;
    if ((!is_roomy && extent->shrunk != SHRUNK_NEVER) || profile_is_wanted() ||
        wanted > extent_pages(extent) || extent->is_huge || extent_is_direct(extent)) {
        return false;
    }
    unsigned class = page_class_of(wanted);
    size_t most = page_class_roomy(class);
    return page_class_below(extent_pages(extent)) <= (is_roomy ? most : size_min(class + 1, most));
}

/* Whether a block of pages that becomes smaller is not to be cut. Guards are to begin where a block ends. */
static bool realloc_keeps_pages(struct extent *extent, size_t size)
{
    size_t wanted = large_rounded_pages(size);
    if (wanted >= extent_pages(extent) || extent->shrunk == SHRUNK_KEPT) {
        return wanted < extent_pages(extent);
    }
    extent->shrunk = SHRUNK_CUT;
    if (extent_size(extent) > SHRINK_KEEP_MAX || extent_is_direct(extent) ||
        extent_has_fence(extent)) {
        return false;
    }
    if (!shrink_of_pages_is_kept(extent_pages(extent) - wanted)) {
        return false;
    }
    extent->shrunk = SHRUNK_KEPT;
    return true;
}

/* Whether a slot keeps a block that gets another size. */
static bool slot_stays(size_t slot_size, size_t size)
{
    return slot_still_fits(slot_size - CANARY_BYTES, size) || realloc_keeps_slot(slot_size, size);
}

/* The same for a block of pages, cut or grown if that is needed. A sample that stays counts with the size that it had,
 * so it stays up to that one alone. */
static bool pages_stay(struct extent *extent, size_t size)
{
    bool is_counted = large_pages(size) << os_page_shift <= large_block_size(extent);
    bool is_roomy = pages_are_roomy(extent, large_pages(size));
    if (!is_roomy && realloc_keeps_pages(extent, size)) {
        return is_counted && shrink_is_worth_keeping(extent_size(extent), size);
    }
    bool is_same = is_roomy || pages_still_fit(extent, (void *)extent->start, size);
    return size > SLOT_REQUEST_MAX && ((is_same && is_counted) || realloc_pages(extent, size));
}

/* As block_try_resize, of a block whose size and family have been looked at. */
static void *block_stays(void *block, struct extent *extent, size_t size)
{
    if (extent_is_slab(extent)) {
        size_t slot_size = slot_block_size(extent, block);
        if (!slot_stays(slot_size, size)) {
            return NULL;
        }
        canary_place(extent, block, slot_size, size);
        return block;
    }
    if (extent_is_guarded(extent) || extent_is_hollow(extent)) {
        return NULL;
    }
    bool is_slot = extent_is_sampled(extent) && extent->slab.sample_is_slot;
    if (!is_slot) {
        realloc_note_growth(extent, size);
    }
    size_t before = canary_lift_large(extent);
    if (!(is_slot ? slot_stays(extent->sample_size, size) : pages_stay(extent, size))) {
        canary_set_large_size(extent, before);
        return NULL;
    }
    canary_place_large(extent, size);
    return (void *)extent->start;
}

static void *block_try_resize(void *block, struct extent *extent, size_t size)
{
    bool is_filled = unlikely(thread_stays_slow());
    size_t old_size = MW_CANARY || is_filled ? block_requested("realloc", extent, block) : 0;
    if (MW_CANARY) {
        block_check_family("realloc", extent, block, block_size(extent, block), old_size);
    }
    void *resized = block_stays(block, extent, size);
    if (is_filled && resized != NULL) {
        struct extent *now = pagemap_find(resized);
        fill_grown(resized, old_size, block_requested("realloc", now, resized));
    }
    return resized;
}

static bool block_try_resize_in_place(struct extent *extent, size_t size)
{
    size_t pages = extent_pages(extent);
    unsigned before = large_class_of(pages, extent->is_huge);
    size_t size_before = canary_lift_large(extent);
    bool done = extent_is_direct(extent) ? direct_try_resize(extent, size, true)
                                         : large_try_resize_in_place(extent, size);
    if (!done) {
        canary_set_large_size(extent, size_before);
        return false;
    }
    if (extent_pages(extent) != pages) {
        if (unlikely(extent_is_sampled(extent))) {
            sample_drop(extent);
        }
        realloc_sample(extent, size);
    }
    canary_place_large(extent, size);
    canary_keep_large(extent, size_before);
    realloc_note_class(extent, before);
    return true;
}

static NOINLINE void *realloc_slow(void *block, struct extent *extent, size_t size)
{
    if (block == NULL) {
        return mw_malloc(size);
    }
    if (MW_TRACK ? !tracked_holds("realloc", block, PROGRAM_PC)
                 : unlikely(!block_is_held("realloc", block, extent))) {
        void *(*next)(void *, size_t) =
            (void *(*)(void *, size_t))foreign_function("realloc", block);
        return next != NULL ? next(block, size) : NULL;
    }
    if (size == 0) {
        return realloc_to_zero(block, MW_TRACK ? PROGRAM_PC : 0);
    }
    if (unlikely(size > PTRDIFF_MAX)) {
        return alloc_failed();
    }
    if (MW_TRACK && tracked_knows(block)) {
        return tracked_realloc(block, size, PROGRAM_PC);
    }
    void *resized = block_try_resize(block, extent, size);
    if (resized != NULL) {
        return resized;
    }
    return realloc_copy(block, block_requested("realloc", extent, block), size);
}

void *mw_reallocarray(void *block, size_t count, size_t size)
{
    size_t bytes;
    if (unlikely(__builtin_mul_overflow(count, size, &bytes))) {
        return alloc_failed();
    }
    return mw_realloc(block, bytes);
}
