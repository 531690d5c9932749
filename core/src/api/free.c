/* SPDX-License-Identifier: MIT
 *
 *   mw_free    finds the slab, pushes to its local list     hit: the slab is this heap's
 *     heap_slab_event   the slab's countdown ended
 *     free_slow         told apart by the owner: medium slots (to a magazine), large blocks (to a
 *                       stack), slots of other threads' slabs (to an outbox) and of nobody's
 *       free_slot       what needs more than that
 *       free_rare       NULL, common slabs, threads without a heap, foreign pointers, misuse
 */
#include "free.h"

#include "../thread/heap_common.h"

static NOINLINE void free_slow(void *block, struct extent *extent, struct heap *heap);

HIT_PATH void mw_free(void *block)
{
    struct extent *extent = pagemap_find(block);
    struct slab *slab = &extent->slab;
    struct heap *heap = heap_self;
    if (unlikely(atomic_get(&slab->owner) != heap)) {
        free_slow(block, extent, heap);
        return;
    }
    struct slot *slot = block;
    if (unlikely(!slab_has_slot_at(extent, slot) || slab->local == slot)) {
        harden_bad_block("free", extent, slot);
    }
    harden_slot_freed(extent, slot);
    check(slab->left > 0 && slab->place != SLAB_NONE && slab->place <= SLAB_WAITING);
    slot_push(&slab->local, slot);
    if (unlikely(--slab->left == 0)) {
        heap_slab_event(heap, extent);
    }
}

/* --- Pointers that are not what free expects -------------------------------------------------- */

/* Ends the program unless the option `foreign` says otherwise. Returns the next allocator's
 * function of that name, or NULL if the call is to be ignored. */
static COLD void *foreign_function(const char *call, const void *block)
{
    switch (option(OPTION_foreign)) {
    case FOREIGN_IGNORE:
        return NULL;
    case FOREIGN_NEXT: {
        static _Atomic(void *) functions[2]; /* free, realloc: the look-up is slow */
        _Atomic(void *) *known = &functions[call[0] == 'r'];
        if (atomic_get(known) == NULL) {
            atomic_set(known, libc_next_symbol(call));
        }
        if (atomic_get(known) != NULL) {
            return atomic_get(known);
        }
        fault_simple(FAULT_FOREIGN_FREE, call, block,
                     "%s of %p, which mallow did not allocate, and there is no other allocator",
                     call, block);
    }
    default:
        fault_simple(FAULT_FOREIGN_FREE, call, block, "%s of %p, which mallow did not allocate",
                     call, block);
    }
}

/* The extent of any state that holds `address`, though the page map may know its ends only. NULL if
 * there is none near enough. */
static COLD struct extent *extent_around(const void *address)
{
    const size_t reach = 256 * MiB;
    uint32_t generation = pagemap_generation();
    if (pagemap_knows_foreign(address)) {
        return NULL;
    }
    uintptr_t at = (uintptr_t)address & ~(GRANULE - 1);
    uintptr_t end = at > reach ? at - reach : 0;
    for (; at > end; at -= GRANULE) {
        struct extent *extent = pagemap_find((void *)at);
        if (extent != pagemap_nothing()) {
            if (extent_end(extent) > (uintptr_t)address) {
                return extent;
            }
            break;
        }
    }
    pagemap_note_foreign(address, generation);
    return NULL;
}

/* Ends the program: `block` is memory of ours, but no block that the program holds. */
_Noreturn static COLD void bad_block(const char *call, const void *block, struct extent *extent)
{
    enum extent_state state = extent_state(extent);
    if (state == EXTENT_ACTIVE && extent_is_slab(extent) && slab_is_common(extent)) {
        common_bad_block(call, extent, block);
    }
    if (state == EXTENT_ACTIVE && extent_is_slab(extent)) {
        harden_bad_block(call, extent, block);
    }
    if (state == EXTENT_ACTIVE) {
        harden_interior(call, block, extent->start, extent_size(extent));
    }
    if ((uintptr_t)block == extent->start && call[0] == 'f') {
        fault_simple(FAULT_DOUBLE_FREE, call, block,
                     "double free of %p (a block of more than %zu bytes)", block, SLOT_MAX);
    }
    fault_simple(FAULT_INVALID_FREE, call, block, "%s of %p, which is in free memory", call, block);
}

/* Whether `block` is one that the program may hold. False if it is foreign; ends the program if it
 * is in our memory but no block. */
ALWAYS_INLINE bool block_is_ours(const char *call, const void *block, struct extent *extent)
{
    if (likely(extent_state(extent) == EXTENT_ACTIVE)) {
        bool begins = (uintptr_t)block == extent->start;
        if (extent_is_slab(extent)) {
            begins = slab_is_common(extent) ? common_block_size(extent, block) != 0
                                            : slab_has_slot_at(extent, block);
        }
        if (likely(begins)) {
            return true;
        }
    }
    struct extent *around = extent_around(block);
    if (around != NULL) {
        bad_block(call, block, around);
    }
    return false;
}

/* --- Slow path -------------------------------------------------------------------------------- */

ALWAYS_INLINE size_t usable_size(struct extent *extent, const void *block)
{
    if (!extent_is_slab(extent)) {
        return unlikely(extent_is_sampled(extent)) ? extent->sample_size : extent_size(extent);
    }
    return slab_is_common(extent) ? common_block_size(extent, block) : extent->slab.slot_size;
}

/* A slot that the program gives back, of any slab. */
static NOINLINE void free_slot(struct heap *heap, struct extent *extent, struct slot *slot)
{
    struct slab *slab = &extent->slab;
    check(extent_state(extent) == EXTENT_ACTIVE && !heap_is_anothers(heap));
    harden_slot_freed(extent, slot);
    if (unlikely(thread_stays_slow()) && junk_fills_freed()) {
        memset(slot, FILL_FREE, usable_size(extent, slot));
    }
    struct heap *owner = atomic_get(&slab->owner);
    if (owner == OWNER_DEPOT) {
        if (!magazine_try_put(heap, extent, slot)) {
            magazine_put_slow(heap, extent, slot);
            heap_note_release(heap);
        }
        return;
    }
    if (owner == NULL && heap_wants_slab(heap, slab->class) && slab_try_own(extent, heap)) {
        heap_adopt(heap, extent);
        owner = atomic_get(&slab->owner); /* a heap with plenty may have shared it at once */
    }
    if (owner == OWNER_COMMON && heap_keep_first(heap, extent, slot)) {
        return;
    }
    if (owner != heap) {
        heap_free_remote(heap, extent, slot);
        return;
    }
    check(slab->left > 0 && slab->place != SLAB_NONE && slab->place <= SLAB_WAITING);
    slot_push(&slab->local, slot);
    if (--slab->left == 0) {
        heap_slab_event(heap, extent);
    }
}

/* A large block that the program gives back. */
static void free_large(struct heap *heap, struct extent *extent)
{
    check(extent_state(extent) == EXTENT_ACTIVE && !extent_is_slab(extent));
    if (extent->is_huge) {
        arena_free(arena_of(extent), extent);
        heap->until_tick--;
        if (heap->list_max > LIST_MAX_WAITING) {
            heap_expect_rest(heap);
        }
    } else {
        heap_put_pages(heap, extent);
        heap_note_release(heap);
    }
}

/* A slot of a depot's slab, or a block of pages. */
static void free_by_kind(struct heap *heap, struct extent *extent, void *block)
{
    if (extent_is_slab(extent)) {
        free_slot(heap, extent, block);
    } else {
        free_large(heap, extent);
    }
    heap_tick_if_due(heap);
}

static NOINLINE void free_rare(void *block, struct extent *extent)
{
    if (block == NULL) {
        return;
    }
    if (unlikely(!block_is_ours("free", block, extent))) {
        void (*next)(void *) = (void (*)(void *))foreign_function("free", block);
        if (next != NULL) {
            next(block);
        }
        return;
    }
    struct heap *heap = thread_enter_to_free();
    if (unlikely(heap->is_counting)) {
        heap->deallocated += usable_size(extent, block);
    }
    if (unlikely(extent_is_sampled(extent))) {
        sample_drop(extent);
    }
    free_by_kind(heap, extent, block);
    thread_leave(heap);
}

/* What a list of the heap has no room for. */
static NOINLINE void free_unlisted(void *block, struct extent *extent)
{
    struct heap *heap = heap_self;
    if (unlikely(heap == HEAP_NONE)) {
        free_rare(block, extent);
    } else {
        free_by_kind(heap, extent, block);
    }
}

/* The clock is due, or a list has got a block and there is much in all of them. */
static NOINLINE void free_noted(struct extent *extent)
{
    struct heap *heap = heap_self;
    stack_note_put(heap, extent);
    if (!extent_is_slab(extent)) {
        heap_note_release(heap);
    }
    heap_tick_if_due(heap);
}

/* Tells apart what goes into no list of the heap, with what the hit path has read. */
static NOINLINE void free_elsewhere(void *block, struct extent *extent, struct heap *heap)
{
    struct heap *owner = atomic_get(&extent->slab.owner);
    if (owner >= OWNER_SAMPLED || heap == HEAP_NONE || !slab_has_slot_at(extent, block)) {
        free_rare(block, extent);
    } else if (owner == NULL && heap_allocates(heap, extent->slab.class)) {
        free_slot(heap, extent, block); /* the thread allocates such slots and may want it */
        heap_tick_if_due(heap);
    } else {
        harden_slot_freed(extent, block);
        heap_free_remote(heap, extent, block);
        heap_tick_if_due(heap);
    }
}

/* A medium slot or a block of pages: into the list of its class, one way for both. */
static NOINLINE void free_slow(void *block, struct extent *extent, struct heap *heap)
{
    if (atomic_get(&extent->slab.owner) < OWNER_DEPOT || !slab_has_slot_at(extent, block) ||
        unlikely(extent_state(extent) != EXTENT_ACTIVE)) {
        free_elsewhere(block, extent, heap);
    } else if (unlikely(MW_SLOT_BITMAP || !magazine_try_put(heap, extent, block))) {
        free_unlisted(block, extent);
    } else if (unlikely(heap->until_tick < 0 ||
                        atomic_get(&heap->stack_pages) > heap->stack_alarm)) {
        free_noted(extent);
    }
}

void mw_cfree(void *block)
{
    mw_free(block);
}

/* Ends the program if the block cannot be one of that size. A block that realloc shrank may have up
 * to twice what was asked for. Only in secure and debug builds: it is a second look-up. */
static void check_free_size(const void *block, size_t alignment, size_t size)
{
    if (!MW_SLOT_BITMAP || block == NULL || !is_power_of_two(alignment)) {
        return;
    }
    size_t usable = mw_malloc_usable_size(block);
    size_t unit = alignment <= os_page_size ? alignment : os_page_size;
    size_t asked = align_up(size_max(size, 1), unit);
    if (unlikely(usable != 0 && (asked > usable || (usable > 16 && asked <= usable / 2)))) {
        fault_simple(FAULT_SIZE_MISMATCH, "free_sized", block,
                     "free of %p with a size of %zu bytes, but the block has %zu", block, size,
                     usable);
    }
}

void mw_free_sized(void *block, size_t size)
{
    check_free_size(block, 1, size);
    mw_free(block);
}

void mw_free_aligned_sized(void *block, size_t alignment, size_t size)
{
    check_free_size(block, alignment, size);
    mw_free(block);
}

/* --- Sizes ------------------------------------------------------------------------------------ */

size_t mw_malloc_usable_size(const void *block)
{
    struct extent *extent = pagemap_find(block);
    return extent_state(extent) == EXTENT_ACTIVE ? usable_size(extent, block) : 0;
}

size_t mw_malloc_good_size(size_t size)
{
    process_init();
    if (size <= SLOT_MAX) {
        return class_size(class_of(size));
    }
    return size <= PTRDIFF_MAX ? large_rounded_pages(size) << os_page_shift : size;
}

/* --- Realloc ---------------------------------------------------------------------------------- */

static size_t block_held_size(const char *call, void *block)
{
    struct extent *extent = pagemap_find(block);
    if (!block_is_ours(call, block, extent)) {
        return 0;
    }
    if (extent_is_slab(extent)) {
        harden_slot_resized(extent, block);
    }
    return usable_size(extent, block);
}

/* Whether a slot is kept for a new size: it fits and wastes less than half. */
static bool slot_still_fits(size_t usable, size_t size)
{
    return size <= usable && (size > usable / 2 || usable <= 16);
}

static void *realloc_by_copy(void *block, struct extent *extent, size_t size)
{
    size_t old_size = usable_size(extent, block);
    void *moved = mw_malloc(size);
    if (moved == NULL) {
        return size <= old_size ? block : NULL; /* making it smaller never fails */
    }
    check(moved != block && mw_malloc_usable_size(moved) >= size);
    memcpy(moved, block, size_min(old_size, size));
    mw_free(block);
    return moved;
}

static _Atomic size_t zero_reallocs_count;

static size_t zero_reallocs(void)
{
    return atomic_get(&zero_reallocs_count);
}

static COLD void *realloc_to_zero(void *block)
{
    atomic_add(&zero_reallocs_count, 1);
    switch (option(OPTION_zero_realloc)) {
    case ZERO_REALLOC_ABORT:
        fault_simple(FAULT_MISUSE, "realloc", block,
                     "realloc of %p to 0 bytes, and zero_realloc is abort", block);
    case ZERO_REALLOC_ALLOC:
        return mw_realloc(block, 1);
    default:
        mw_free(block);
        return NULL;
    }
}

/* A block of pages with another size is another block to a profile. */
static void realloc_sample(struct extent *extent, size_t size)
{
    struct heap *heap = thread_enter();
    if (heap->is_sampling) {
        alloc_maybe_sample(heap, extent, size);
    }
    thread_leave(heap);
}

/* A block that is counted in another class from now on counts as freed and allocated anew. */
static bool realloc_pages(struct extent *extent, size_t size)
{
    size_t old_size = extent_size(extent);
    unsigned before = large_class_of(extent_pages(extent), extent->is_huge);
    if (unlikely(extent_is_sampled(extent))) {
        sample_drop(extent);
    }
    if (!large_try_resize(extent, size)) {
        return false;
    }
    if (unlikely(profile_is_wanted())) {
        realloc_sample(extent, size);
    }
    thread_count_resize(old_size, extent_size(extent));
    unsigned class = large_class_of(extent_pages(extent), extent->is_huge);
    if (class != before) {
        struct heap *heap = thread_enter();
        heap->large_counts[class]++;
        thread_leave(heap);
    }
    return true;
}

void *mw_realloc(void *block, size_t size)
{
    if (block == NULL) {
        return mw_malloc(size);
    }
    struct extent *extent = pagemap_find(block);
    if (unlikely(!block_is_ours("realloc", block, extent))) {
        void *(*next)(void *, size_t) =
            (void *(*)(void *, size_t))foreign_function("realloc", block);
        return next != NULL ? next(block, size) : NULL;
    }
    if (size == 0) {
        return realloc_to_zero(block);
    }
    if (unlikely(size > PTRDIFF_MAX)) {
        return alloc_failed();
    }
    if (extent_is_slab(extent)) {
        harden_slot_resized(extent, block);
        if (slot_still_fits(usable_size(extent, block), size)) {
            return block;
        }
    } else if (size > SLOT_MAX && realloc_pages(extent, size)) {
        return (void *)extent->start;
    }
    return realloc_by_copy(block, extent, size);
}

void *mw_reallocarray(void *block, size_t count, size_t size)
{
    size_t bytes;
    if (unlikely(__builtin_mul_overflow(count, size, &bytes))) {
        return alloc_failed();
    }
    return mw_realloc(block, bytes);
}
