/* SPDX-License-Identifier: MIT
 *
 *   mw_free    finds the slab, pushes to its local list     hit: the slab is this heap's
 *     free_of_other     slots of other heaps' slabs: kept, or to an outbox
 *     heap_slab_event   the slab's countdown ended
 *     free_listed       medium slots and blocks of pages, to the list that the page map names    hit
 *     free_slow         told apart by the owner: what a list has no room for, slots of common slabs and of
 *                       nobody's (in secure of other heaps' too)
 *       free_slot       what needs more than that
 *       free_rare       NULL, common slabs, threads without a heap, foreign pointers, misuse
 */
#include "free.h"

#include "../thread/chains.h"
#include "../thread/delay.h"
#include "../thread/held.h"
#include "../thread/keep.h"
#include "../slots/retired.h"
#include "../thread/heap.h"

static NOINLINE void free_slow(void *block, struct extent *extent, struct heap *heap);
static NOINLINE void free_listed(void *block, uintptr_t found, struct heap *heap);
static NOINLINE void free_of_other(void *block, struct extent *extent, struct heap *heap);

/* The first stage of the quarantine is full, or all of it. */
static NOINLINE void free_turn(struct heap *heap, size_t size)
{
    delay_turn(heap, size);
    heap_tick_if_due(heap);
}

/* A slot that the program has given back, and that is too large for a fill on the hit path. */
static NOINLINE void free_own_larger(struct heap *heap, struct extent *extent, struct slot *slot)
{
    slot_fill(slot, extent->slab.slot_size);
    if (delay_put(heap, slot, extent->slab.slot_size)) {
        free_turn(heap, extent->slab.slot_size);
    }
}

static NOINLINE COLD void free_own_odd(struct heap *heap, struct extent *extent, void *block,
                                       uint8_t family, size_t size)
{
    canary_odd_free(extent, block, family, size);
    free_own_larger(heap, extent, block);
}

/* The slab is the heap's. A release for a family, with a size or SIZE_MAX: without canaries 0 and that. */
ALWAYS_INLINE void free_own(struct heap *heap, struct extent *extent, void *block, uint8_t family,
                            size_t size)
{
    struct slab *slab = &extent->slab;
    struct slot *slot = block;
    if (MW_DELAY_FREE) {
        if (unlikely(!harden_own_slot_freed(extent, slot, family, size))) {
            free_own_odd(heap, extent, slot, family, size);
        } else if (unlikely(slab->slot_size > FILL_NEAR)) {
            free_own_larger(heap, extent, slot);
        } else {
            slot_fill_small(slot, slab->slot_size);
            if (delay_put(heap, slot, slab->slot_size)) {
                free_turn(heap, slab->slot_size);
            }
        }
        return;
    }
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

ALWAYS_INLINE void free_plain(void *block)
{
    uintptr_t found = pagemap_look(block);
    struct heap *heap = heap_self;
    if (unlikely(found_has_list(found))) {
        free_listed(block, found, heap);
        return;
    }
    struct extent *extent = (struct extent *)found;
    if (unlikely(atomic_differs(&extent->owner, heap))) {
        free_of_other(block, extent, heap);
        return;
    }
    free_own(heap, extent, block, 0, SIZE_MAX);
}

HIT_PATH void mw_free(void *block)
{
    if (MW_TRACK) {
        tracked_free(block, &(struct track_return){"free", SIZE_MAX, 0, PROGRAM_PC, 0});
        return;
    }
    free_plain(block);
}

/* --- Pointers that are not what free expects -------------------------------------------------- */

/* Whether `block` is one that the program may hold. False if it is foreign; ends the program if it
 * is in our memory but no block. */
ALWAYS_INLINE bool block_is_ours(const char *call, const void *block, struct extent *extent)
{
    if (unlikely(extent_is_hollow(extent))) {
        return hollow_is_held(call, block);
    }
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
    if (extent_is_guarded(extent)) {
        return guarded_size(call, block) != SIZE_MAX;
    }
    struct extent *around = extent_around(block);
    if (around != NULL) {
        bad_block(call, block, around);
    }
    return false;
}

static bool block_is_held(const char *call, const void *block, struct extent *extent)
{
    if (!block_is_ours(call, block, extent)) {
        bool is_told = MW_SLOT_BITMAP && option(OPTION_foreign) == FOREIGN_ABORT;
        return is_told && foreign_function(call, block) != NULL; /* which does not return */
    }
    if (extent_is_slab(extent)) {
        harden_slot_looked_at(call, extent, block);
    }
    return true;
}

/* --- Slow path -------------------------------------------------------------------------------- */

/* All bytes of a block. */
ALWAYS_INLINE size_t block_size(struct extent *extent, const void *block)
{
    return extent_is_slab(extent) ? slot_block_size(extent, block)
                                  : whole_block_size("malloc_usable_size", extent, block);
}

/* The same for a slot of another slab; an unsettled one may be free. */
static NOINLINE COLD void free_any_odd(struct extent *extent, void *block, bool settled)
{
    if (!settled && !slot_is_held(extent, block)) {
        harden_bad_block("free", extent, block);
    }
    canary_odd_free(extent, block, 0, SIZE_MAX);
}

/* A slot that the program gives back, and that is not of the heap's own slabs, begins to wait. */
ALWAYS_INLINE void free_any_slot(struct heap *heap, struct extent *extent, struct slot *slot,
                                 size_t size)
{
    bool settles = harden_settles_at_once();
    if (unlikely(!harden_any_slot_freed(extent, slot, size, settles))) {
        free_any_odd(extent, slot, settles);
    }
    slot_fill(slot, size);
    if (unlikely(strength_spares_middle(size, strength.fill_whole))) {
        slot = delay_fill_middle(slot, size);
    }
    if (settles ? delay_put(heap, slot, size) : delay_put_unsettled(heap, slot, size)) {
        delay_turn(heap, size);
    }
}

/* A slot that the program gives back, of any slab. */
static NOINLINE void free_slot(struct heap *heap, struct extent *extent, struct slot *slot)
{
    check(extent_state(extent) == EXTENT_ACTIVE && !heap_is_anothers(heap));
    if (unlikely(!canary_front_is_whole(extent, slot)) && slot_is_held(extent, slot)) {
        canary_bad_front("free", extent, slot);
    }
    if (MW_DELAY_FREE) {
        size_t size = block_size(extent, slot);
        if (unlikely(size == 0)) {
            harden_bad_block("free", extent, slot); /* of a common slab, and freed meanwhile */
        }
        free_any_slot(heap, extent, slot, size);
        return;
    }
    harden_slot_freed(extent, slot);
    if (unlikely(thread_stays_slow()) && !MW_FILL && junk_fills_freed()) {
        memset(slot, FILL_FREE, block_size(extent, slot));
    }
    heap_take_back(heap, extent, slot);
}

/* A large block is no longer the program's. */
static void large_leaves(struct extent *extent)
{
    check(extent_state(extent) == EXTENT_ACTIVE && !extent_is_slab(extent));
    if (MW_CANARY) {
        canary_take_large(extent);
    }
    if (unlikely(extent_is_sampled(extent))) {
        sample_drop(extent);
    }
    if (MW_PAGEMAP_LISTS) {
        pagemap_set(extent->start, extent); /* a second free finds no list */
    }
}

/* Ends the program if a block that is freed past its list lies there already. */
static void check_not_listed(struct heap *heap, struct extent *extent)
{
    if (unlikely(list_has_block(heap, extent))) {
        harden_bad_block("free", extent, (void *)extent->start);
    }
}

/* A large block that the program gives back. */
static void free_large(struct heap *heap, struct extent *extent)
{
    check(!heap_is_anothers(heap));
    check_not_listed(heap, extent);
    bool is_of_slot = extent_is_sampled(extent) && extent->slab.sample_is_slot;
    large_leaves(extent);
    if (extent->is_huge) {
        if (!MW_FENCES) {
            large_leave_scattered(extent);
        }
        if (!MW_FENCES || !retired_put(extent)) {
            arena_free(arena_of(extent), extent);
        }
        heap->until_tick--;
        if (heap->list_max > LIST_MAX_WAITING) {
            heap_expect_rest(heap);
        }
        return;
    }
    struct extent *freed = extent;
    extent = held_exchange(heap, freed);
    if (extent != NULL && extent == freed && is_of_slot) {
        heap_put_slab_pages(heap, extent); /* of a sample in its place, for the next ones */
    } else if (extent != NULL && !stack_hand_on(heap, extent)) {
        heap_put_pages(heap, extent);
        heap_note_release(heap);
    }
}

static void free_by_kind(struct heap *heap, struct extent *extent, void *block)
{
    if (extent_is_slab(extent)) {
        free_slot(heap, extent, block);
    } else {
        free_large(heap, extent);
    }
    heap_tick_if_due(heap);
}

/* A block that goes back to its arena, past the heap. */
static void free_direct(struct extent *extent, void *block)
{
    size_t usable = block_size(extent, block);
    check(extent_is_direct(extent) && extent_state(extent) == EXTENT_ACTIVE);
    if (!extent_is_slab(extent)) {
        large_leaves(extent);
    }
    thread_count_resize(usable, 0);
    bool is_filled = MW_TRACK || (unlikely(thread_stays_slow()) && !MW_FILL && junk_fills_freed());
    if (is_filled && extent_is_slab(extent)) {
        memset(block, FILL_FREE, usable);
    }
    direct_free(extent, block);
}

static NOINLINE void free_rare(void *block, struct extent *extent)
{
    if (block == NULL) {
        return;
    }
    if (unlikely(extent_is_guarded(extent))) {
        thread_count_resize(guarded_free(block), 0);
        return;
    }
    if (extent_is_hollow(extent)) {
        hollow_free(block);
        return;
    }
    if (unlikely(!block_is_ours("free", block, extent))) {
        void (*next)(void *) = (void (*)(void *))foreign_function("free", block);
        if (next != NULL) {
            next(block);
        }
        return;
    }
    if (extent_is_direct(extent)) {
        free_direct(extent, block);
        return;
    }
    struct heap *heap = thread_enter_to_free();
    if (unlikely(heap->is_counting)) {
        heap->deallocated += block_size(extent, block);
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

/* The clock or a sample may be due, and the list of a class has got a slot or a block. No descriptor is touched, as on the
 * hit path. */
static NOINLINE void free_noted(struct heap *heap, unsigned class)
{
    check(heap == heap_self && !heap_is_anothers(heap));
    bool is_block = class >= CLASSES;
    unsigned page_class = is_block ? page_class_of_block(class) : 0;
    if (unlikely(heap_is_sampling(heap)) && is_block) {
        stack_note_sample(heap, page_class);
    } else if (unlikely(heap_is_sampling(heap))) {
        magazine_note_put(heap, class);
    }
    stack_note_put(heap, page_class);
    if (is_block) {
        heap_note_release(heap);
    }
    heap_tick_if_due(heap);
}

/* Whether `block` begins a block of a common slab. */
ALWAYS_INLINE bool block_is_of_common(struct extent *extent, const void *block)
{
    return extent_state(extent) == EXTENT_ACTIVE && slab_is_common(extent) &&
           common_block_size(extent, block) != 0;
}

/* Tells apart what goes into no list of the heap, with what the hit path has read. */
static NOINLINE void free_elsewhere(void *block, struct extent *extent, struct heap *heap)
{
    struct heap *owner = atomic_get(&extent->owner);
    if (owner == OWNER_COMMON && heap != HEAP_NONE && block_is_of_common(extent, block)) {
        free_slot(heap, extent, block);
        heap_tick_if_due(heap);
    } else if (owner >= OWNER_GUARDED || heap == HEAP_NONE || !slab_has_slot_at(extent, block)) {
        free_rare(block, extent);
    } else if (MW_DELAY_FREE) {
        free_any_slot(heap, extent, block,
                      extent->slab.slot_size); /* no medium slot, and not common */
        heap_tick_if_due(heap);
    } else if (owner == NULL && heap_allocates(heap, extent->slab.class)) {
        free_slot(heap, extent, block); /* the thread allocates such slots and may want it */
        heap_tick_if_due(heap);
    } else {
        harden_slot_freed(extent, block);
        heap_free_remote(heap, extent, block);
        heap_tick_if_due(heap);
    }
}

/* A slot was kept, and the clock or a sample may be due. */
static NOINLINE void free_noted_kept(struct heap *heap, unsigned class)
{
    if (unlikely(heap_is_sampling(heap))) {
        heap_note_kept(heap, class);
    }
    heap_tick_if_due(heap);
}

/* What is no slot of the heap's own slabs and not taken by a list. */
static NOINLINE void free_slow(void *block, struct extent *extent, struct heap *heap)
{
    struct heap *owner = atomic_get(&extent->owner);
    bool is_slot = slab_has_slot_at(extent, block);
    if (is_slot && heap_keeps(heap, extent, owner, block)) {
        harden_slot_freed(extent, block);
        heap_keep_of_any(heap, extent, owner, block);
        if (unlikely(heap->until_tick < 0)) {
            free_noted_kept(heap, extent->class);
        }
    } else if (owner < OWNER_DEPOT || !is_slot || unlikely(extent_state(extent) != EXTENT_ACTIVE)) {
        free_elsewhere(block, extent, heap);
    } else {
        free_unlisted(block, extent);
    }
}

/* What is no slot of the heap's own slabs, nor what the page map knows a list for. Of a slot that is another heap's,
 * only the second line of the descriptor is read: that heap's thread writes the first at each free of its own. */
static NOINLINE void free_of_other(void *block, struct extent *extent, struct heap *heap)
{
    struct heap *owner = atomic_get(&extent->owner);
    unsigned class = extent->class;
    if (MW_DELAY_FREE || owner >= OWNER_GUARDED || unlikely(heap == HEAP_NONE) ||
        unlikely(!distance_is_of_slot((uintptr_t)block - extent->slots, list_reciprocals[class])) ||
        (owner == NULL && !heap_keeps_of_nobody(heap, class))) {
        free_slow(block, extent, heap);
        return;
    }
    harden_slot_freed(extent, block);
    if (owner == NULL || heap_keeps_of_heaps(heap, class)) {
        heap_keep_of_any(heap, extent, owner, block);
        if (unlikely(heap->until_tick < 0)) {
            free_noted_kept(heap, class);
        }
    } else {
        heap_free_remote(heap, extent, block);
        heap_tick_if_due(heap);
    }
}

/* What goes into the list of its class: medium slots and blocks of pages. The page map tells all that is needed, so that
 * no descriptor is touched. */
HIT_PATH static NOINLINE void free_listed(void *block, uintptr_t found, struct heap *heap)
{
    unsigned class = found_list(found);
    uint64_t reciprocal = list_reciprocals[class];
    if (unlikely(!distance_is_of_slot(found_distance(found, block), reciprocal))) {
        free_slow(block, found_extent(found), heap);
    } else if (unlikely(!magazine_try_put(heap, class, block))) {
        free_unlisted(block, found_extent(found));
    } else if (unlikely(heap->until_tick < 0)) {
        free_noted(heap, class);
    }
}

static void free_uncached(void *block)
{
    struct extent *extent = pagemap_find(block);
    bool is_slot = slab_is_of_depot(extent) && slab_has_slot(extent, block);
    bool is_large = extent_state(extent) == EXTENT_ACTIVE && !extent_is_slab(extent) &&
                    (uintptr_t)block == extent->start && !extent_is_direct(extent);
    if (block == NULL || (!is_slot && !is_large)) {
        mw_free(block); /* small slots go to their slab, direct blocks to their arena */
        return;
    }
    thread_leave(thread_enter()); /* the child of a fork puts its heaps in order first */
    thread_count_resize(block_size(extent, block), 0);
    if (is_large) {
        check_not_listed(heap_self, extent);
        large_leaves(extent);
        if (!MW_FENCES || !retired_put(extent)) {
            arena_free(arena_of(extent), extent);
        }
        return;
    }
    struct slot *slot = block;
    harden_slot_freed(extent, slot);
    fill_freed(slot, extent->slab.slot_size);
    slot_set_next(slot, NULL);
    arena_free_chain(depot_put(slot));
}

void mw_cfree(void *block)
{
    mw_free(block);
}

static bool free_check_size(const void *block, size_t alignment, size_t size)
{
    if (!MW_SLOT_BITMAP || block == NULL) {
        return false;
    }
    struct extent *extent = pagemap_find(block);
    if (!block_is_held("free", block, extent)) {
        return false;
    }
    size_t requested = block_requested("free", extent, block);
    if (unlikely(size != requested)) {
        size_differs(block, size, requested);
    }
    bool fits = !is_power_of_two(alignment) || ((uintptr_t)block & (alignment - 1)) == 0;
    if (unlikely(!fits)) {
        alignment_differs(block, alignment, size, 0);
    }
    return fits;
}

/* The same of the alignment that the block keeps. Those that every block has are all one. */
static void free_check_alignment(const void *block, size_t alignment)
{
    struct extent *extent = pagemap_find(block);
    size_t size = block_requested("free", extent, block);
    size_t kept = canary_alignment(extent, block, size);
    if (kept != 0 && size_max(alignment, BLOCK_ALIGNMENT) != size_max(kept, BLOCK_ALIGNMENT)) {
        alignment_differs(block, alignment, size, kept);
    }
}

/* aligned_alloc refuses such an alignment, and only its blocks may be freed so. */
static COLD void odd_alignment_given(const void *block, size_t alignment, size_t size)
{
    struct fault fault = fault_of_live("free_aligned_sized", block, size);
    fault.kind = FAULT_ALIGNMENT_MISMATCH;
    fault_tell(&fault, "free of %p with an alignment of %zu, which is no power of two", block,
               alignment);
}

void mw_free_sized(void *block, size_t size)
{
    if (MW_TRACK) {
        tracked_free(block, &(struct track_return){"free_sized", size, 0, PROGRAM_PC, 0});
        return;
    }
    free_check_size(block, 1, size);
    mw_free(block);
}

void mw_free_aligned_sized(void *block, size_t alignment, size_t size)
{
    if (MW_SLOT_BITMAP && unlikely(!is_power_of_two(alignment)) && block != NULL) {
        odd_alignment_given(block, alignment, size);
        mw_free_sized(block, size); /* with misuse:continue */
        return;
    }
    if (MW_TRACK) {
        tracked_free(block,
                     &(struct track_return){"free_aligned_sized", size, alignment, PROGRAM_PC, 0});
        return;
    }
    if (free_check_size(block, alignment, size)) {
        free_check_alignment(block, alignment);
    }
    mw_free(block);
}

/* --- Sizes ------------------------------------------------------------------------------------ */

static size_t block_held_size(const char *call, const void *block)
{
    if (MW_TRACK) {
        return tracked_size(call, block, 0);
    }
    struct extent *extent = pagemap_find(block);
    return block_is_held(call, block, extent) ? block_requested(call, extent, block) : 0;
}

size_t mw_malloc_usable_size(const void *block)
{
    if (MW_TRACK) {
        return block != NULL ? tracked_size("malloc_usable_size", block, PROGRAM_PC) : 0;
    }
    struct extent *extent = pagemap_find(block);
    if (MW_SLOT_BITMAP && block != NULL) {
        return block_held_size("malloc_usable_size", block);
    }
    return extent_state(extent) == EXTENT_ACTIVE ? block_size(extent, block) : 0;
}

size_t mw_malloc_good_size(size_t size)
{
    process_init();
    if (MW_TRACK || MW_CANARY || guards_are_on()) {
        return size; /* a block has what was asked for */
    }
    if (size <= SLOT_REQUEST_MAX) {
        return class_size(class_of(size));
    }
    return size <= PTRDIFF_MAX ? large_rounded_pages(size) << os_page_shift : size;
}
