/* SPDX-License-Identifier: MIT
 *
 *   mw_malloc  slots: pops the heap's list                            hit
 *     alloc_refill     takes over the current slab's local list       every few dozen calls
 *     alloc_medium     pops a list of blocks of pages; above heap->table_most a magazine too    hit
 *       alloc_slow     all the rest: a thread's first call, ticks, carving, other slabs, depots, arenas, huge blocks
 */
#include "alloc.h"

#include <errno.h>

static NOINLINE void *alloc_refill(size_t size, struct heap *heap, size_t class);
static NOINLINE void *alloc_medium(size_t size);

ALWAYS_INLINE void *alloc_plain(size_t size)
{
    if (MW_CANARY && unlikely(size - 1 >= SMALL_REQUEST_MAX)) {
        return alloc_medium(size); /* 0 as well */
    }
    struct heap *heap = heap_self;
    if (!MW_CANARY && unlikely(size > heap->table_most)) {
        return alloc_medium(size);
    }
    size_t class = class_of_slot(size + CANARY_BYTES); /* as an index it needs no instruction */
    if (unlikely(heap->free[class] == NULL)) {
        return alloc_refill(size, heap, class);
    }
    return alloc_first(heap, class, size, 0);
}

HIT_PATH void *mw_malloc(size_t size)
{
    if (MW_TRACK) {
        return tracked_alloc(&(struct track_request){
            .alignment = BLOCK_ALIGNMENT, .size = size, .caller = PROGRAM_PC});
    }
    return alloc_plain(size);
}

HIT_PATH static NOINLINE void *alloc_medium(size_t size)
{
    if (MW_CANARY && unlikely(size == 0)) {
        return alloc_slow(size);
    }
    struct heap *heap = heap_self;
    unsigned class = class_of_medium(medium_bytes(size));
    if (unlikely(size > LISTED_MAX || fence_is_due(size)) ||
        (unlikely(heap->free[class] == NULL) && !magazine_may_replace(heap, ++class))) {
        return alloc_slow(size);
    }
    check(class_size(class) >= size);
    return magazine_pop(heap, class, size);
}

static NOINLINE void *alloc_refill(size_t size, struct heap *heap, size_t class)
{
    check(heap->free[class] == NULL);
    struct extent *extent = class < SMALL_CLASSES ? heap->bins[class].current : NULL;
    struct slot *slot = NULL;
    if (likely(extent != NULL && extent->slab.local != NULL && heap->until_tick >= 0)) {
        struct bin *bin = &heap->bins[class];
        bool takes_next = heap_prefers_ready(bin);
        if (unlikely(heap_is_sampling(heap)) &&
            !heap_sample_is_behind(heap, (unsigned)class,
                                   takes_next ? LIST_MAX_BUSY : slab_listed(extent))) {
            slot = heap_take_local_sampling(heap, (unsigned)class);
        } else {
            slot = takes_next ? heap_take_next(heap, bin) : heap_take_local(heap, extent);
        }
    }
    if (unlikely(slot == NULL)) {
        return alloc_slow(size);
    }
    harden_slot_taken(harden_slot_leaves(slot, (unsigned)class), slot, size, 0);
    return slot;
}

static COLD void *alloc_failed(void)
{
    if (option(OPTION_xmalloc)) {
        fault_simple(FAULT_OUT_OF_MEMORY, "malloc", NULL, "out of memory, and xmalloc is on");
    }
    errno = ENOMEM;
    return NULL;
}

/* There was no memory. Where blocks are tracked, the caller has some in hand. */
static COLD void *alloc_exhausted(void)
{
    return MW_TRACK ? NULL : alloc_failed();
}

/* --- Slow path -------------------------------------------------------------------------------- */

/* With the fill options every block comes through here. */
static void *alloc_filled(void *block, size_t size, bool is_zero)
{
    if (unlikely(thread_stays_slow()) && block != NULL) {
        if (option(OPTION_zero)) {
            if (!is_zero) {
                memset(block, 0, size);
            }
        } else if (junk_fills_new()) {
            memset(block, FILL_NEW, size);
        }
    }
    return block;
}

static struct slot *alloc_refilled(struct heap *heap, unsigned class, bool must_be_aligned)
{
    struct slot *slot;
    if (unlikely(heap_is_sampling(heap)) && !heap_may_refill_plainly(heap, class)) {
        slot = heap_refill_sampling(heap, class, must_be_aligned);
    } else {
        slot = class_is_medium(class) ? magazine_fill(heap, class, must_be_aligned)
                                      : heap_refill(heap, class, must_be_aligned);
    }
    if (slot != NULL) {
        harden_slot_leaves(slot, class);
    }
    return slot;
}

/* A guarded block in the place of a slot. What a slot of the class is aligned to is enough for whoever
 * asked for an alignment. */
static void *alloc_guarded(struct heap *heap, unsigned class, size_t size, bool must_be_aligned)
{
    size_t of_class = class_size(class) & -(size_t)class_size(class);
    size_t alignment = must_be_aligned ? size_min(of_class, os_page_size) : BLOCK_ALIGNMENT;
    void *block = guarded_take(size, alignment, class, sampler_coin(&heap->sampler));
    if (block != NULL && heap->is_counting) {
        heap_count_bytes(heap, size);
    }
    return alloc_filled(block, size, false);
}

/* A sampled block of `size` bytes in the place of a slot; NULL if out of memory. */
static void *alloc_sample(struct heap *heap, unsigned class, size_t size)
{
    struct extent *extent = heap_take_pages(heap, large_pages(class_size(class)));
    if (extent == NULL) {
        return NULL;
    }
    heap->large_counts[large_class_of(extent_pages(extent), false)]++;
    extent->is_zero = false;
    sample_take_slot(extent, class_size(class), &heap->sampler);
    if (heap->is_counting) {
        heap_count_bytes(heap, class_size(class));
    }
    canary_place_large(extent, size);
    return alloc_filled((void *)extent->start, MW_CANARY ? size : class_size(class), false);
}

/* The same, or a guarded block; NULL if this call is neither or there is no memory. */
static NOINLINE void *alloc_sampled(struct heap *heap, unsigned class, size_t size,
                                    bool must_be_aligned)
{
    if (!heap_sample_is_due(heap, class)) {
        return NULL;
    }
    if (GUARDS_ARE_POSSIBLE && heap_takes_guard(heap, class)) {
        return alloc_guarded(heap, class, size, must_be_aligned);
    }
    return alloc_sample(heap, class, size);
}

/* A sampled block of `size` bytes in the place of a direct slot; NULL if out of memory. */
static NOINLINE void *alloc_direct_sampled(struct heap *heap, struct direct *direct, unsigned class,
                                           size_t size)
{
    uint8_t thinning = heap->sampler.taken_thinning; /* the arena's hooks may allocate */
    struct extent *extent = direct_alloc_pages(direct, class_size(class), os_page_size);
    if (extent == NULL) {
        return NULL;
    }
    extent->is_zero = false;
    heap->sampler.taken_thinning = thinning;
    sample_take_slot(extent, class_size(class), &heap->sampler);
    canary_place_large(extent, size);
    return (void *)extent->start;
}

/* Whether a direct block is a sample. `heap` is that of the calling thread; NULL: it takes none. */
ALWAYS_INLINE bool alloc_is_sample(struct heap *heap, size_t size)
{
    return unlikely(heap != NULL && heap_chooses_samples(heap)) &&
           sampler_takes(&heap->sampler, size);
}

/* A slot of a class past the heap, for `size` bytes. */
static void *alloc_direct_slot(struct heap *heap, struct direct *direct, unsigned class,
                               size_t size)
{
    bool is_sample = alloc_is_sample(heap, class_size(class));
    void *block = is_sample ? alloc_direct_sampled(heap, direct, class, size) : NULL;
    if (block == NULL) {
        block = direct_alloc_slot(direct, class, size);
    }
    if (block == NULL) {
        return NULL;
    }
    thread_count_resize(0, class_size(class));
    return alloc_filled(block, MW_CANARY ? size : class_size(class), false);
}

static void *alloc_direct(struct heap *heap, struct direct *direct, size_t alignment, size_t size,
                          bool *is_zero)
{
    *is_zero = false;
    if (alignment <= os_page_size && size <= SLOT_REQUEST_MAX &&
        align_up(slot_bytes(size), alignment) <= SLOT_MAX) {
        return alloc_direct_slot(heap, direct, class_of_aligned(alignment, size), size);
    }
    if (!alloc_is_possible(alignment, size) || !limit_allows(size)) {
        return NULL;
    }
    struct extent *extent = direct_alloc_pages(direct, size, alignment);
    if (unlikely(extent == NULL)) {
        directs_give_back();
        extent = direct_alloc_pages(direct, size, alignment);
    }
    if (extent == NULL) {
        return NULL;
    }
    *is_zero = extent->is_zero && !(thread_stays_slow() && junk_fills_new());
    if (unlikely(heap != NULL && heap_chooses_samples(heap))) {
        heap_maybe_sample(heap, extent, size);
    }
    canary_place_large(extent, size);
    thread_count_resize(0, large_block_size(extent));
    return alloc_filled((void *)extent->start, MW_CANARY ? size : extent_size(extent), *is_zero);
}

/* The calling thread's heap if it takes samples, else NULL: for blocks that come from elsewhere. */
static struct heap *alloc_sampling_heap(void)
{
    if (likely(!profile_is_wanted())) {
        return NULL;
    }
    struct heap *heap = thread_enter();
    heap->until_tick--;
    heap_tick_if_due(heap);
    bool is_own = heap->thread != NULL; /* the shared one takes none */
    thread_leave(heap);
    return is_own && heap_chooses_samples(heap) ? heap : NULL;
}

static bool alloc_is_sampled(size_t size)
{
    struct heap *heap = alloc_sampling_heap();
    return heap != NULL && sampler_takes(&heap->sampler, size);
}

static void *alloc_in_place_of_cached(unsigned class, size_t size)
{
    if (alloc_sampling_heap() == NULL) {
        return NULL;
    }
    struct heap *heap = thread_enter();
    void *block = alloc_is_sample(heap, class_size(class)) ? alloc_sample(heap, class, size) : NULL;
    thread_leave(heap);
    return block;
}

static void *alloc_untracked(struct direct *direct, size_t alignment, size_t size, bool *is_zero)
{
    void *block = alloc_direct(alloc_sampling_heap(), direct, alignment, size, is_zero);
    if (MW_TRACK && block != NULL) {
        track_forget(pagemap_find(block), block);
    }
    return block;
}

/* The pool that serves a thread which takes no such block from its heap; NULL for all others. */
ALWAYS_INLINE struct direct *alloc_route(struct heap *heap, size_t size)
{
    if (likely(thread_uses_heap(heap, size))) {
        return NULL;
    }
    struct direct *direct = thread_direct(heap, size);
    heap->until_tick -= direct != NULL;
    return direct;
}

static void *alloc_slot(struct heap *heap, unsigned class, size_t size, bool must_be_aligned)
{
    struct direct *direct = alloc_route(heap, class_size(class));
    if (unlikely(direct != NULL)) {
        return alloc_direct_slot(HEAPS_SAMPLE ? heap : NULL, direct, class, size);
    }
    struct slot *slot = heap_pop(heap, class);
    if (slot == NULL && unlikely(heap_is_sampling(heap)) && !heap_may_refill_plainly(heap, class)) {
        void *block = alloc_sampled(heap, class, size, must_be_aligned);
        if (block != NULL) {
            return block;
        }
    }
    if (slot == NULL) {
        slot = alloc_refilled(heap, class, must_be_aligned);
    }
    if (unlikely(slot == NULL)) {
        heap_reclaim(heap);
        heap_forget_sample(heap, class); /* what came back may be one whose turn is a sample */
        slot = alloc_refilled(heap, class, must_be_aligned);
    }
    check(slot == NULL || slot_block_size(pagemap_find(slot), slot) >= class_size(class));
    check(((uintptr_t)slot & (BLOCK_ALIGNMENT - 1)) == 0);
    if (slot != NULL) {
        harden_slot_taken(pagemap_find(slot), slot, size, 0);
        if (unlikely(heap->is_counting)) {
            heap_count_bytes(heap, slot_block_size(pagemap_find(slot), slot));
        }
    }
    return alloc_filled(slot, MW_CANARY ? size : class_size(class), false);
}

/* Huge blocks come from the arenas, past the stacks; a large alignment is served by a stack only if a block
 * with such a one is on top. */
static struct extent *alloc_pages(struct heap *heap, size_t size, size_t alignment)
{
    if (MW_FENCES && (size > LARGE_MAX || (size >= strength.fence_min &&
                                           rate_pay(RATE_OF_BLOCKS, fence_price(size))))) {
        return arena_alloc_fenced(heap->arena, large_pages(size),
                                  size_max(alignment, os_page_size));
    }
    if (size <= LARGE_MAX && alignment <= os_page_size) {
        return heap_take_pages(heap, size_max(large_pages(size), 1));
    }
    size_t pages = large_rounded_pages(size);
    alignment = size_max(alignment, os_page_size);
    struct extent *extent = size <= LARGE_MAX ? stack_pop_aligned(heap, pages, alignment) : NULL;
    if (extent == NULL) {
        extent = arenas_alloc_dirty(heap->arena, pages, alignment);
    }
    return extent != NULL ? extent : arenas_alloc(heap->arena, pages, alignment);
}

static bool alloc_is_possible(size_t alignment, size_t size)
{
    return size <= PTRDIFF_MAX - REGION_MAX && alignment <= PTRDIFF_MAX - size &&
           size + alignment <= ADDRESS_LIMIT;
}

/* A block with an extent of its own. *is_zero says whether it reads as zero. */
static void *alloc_large(struct heap *heap, size_t size, size_t alignment, bool *is_zero)
{
    /* Nothing is thrown away for what can never be. */
    if (!alloc_is_possible(alignment, size) || !limit_allows(size)) {
        return NULL;
    }
    struct direct *direct = alloc_route(heap, size);
    if (unlikely(direct != NULL)) {
        return alloc_direct(HEAPS_SAMPLE ? heap : NULL, direct, alignment, size, is_zero);
    }
    heap->takes_blocks = true;
    if (unlikely(heap_is_sampling(heap))) {
        heap->listed_block = NULL;
    }
    struct extent *extent = alloc_pages(heap, size, alignment);
    if (unlikely(extent == NULL)) {
        heap_reclaim(heap);
        extent = alloc_pages(heap, size, alignment);
    }
    if (extent == NULL) {
        return NULL;
    }
    check(extent_size(extent) >= size && (extent->start & (alignment - 1)) == 0);
    check(extent_state(extent) == EXTENT_ACTIVE && !extent_is_slab(extent));
    heap->large_counts[large_class_of(extent_pages(extent), extent->is_huge)]++;
    *is_zero = extent->is_zero;
    extent->is_zero = false; /* from now on nobody knows */
    large_note_list(extent);
    if (unlikely(heap_is_sampling(heap))) {
        heap_sample_pages(heap, extent, size);
    }
    if (unlikely(heap->is_counting)) {
        heap_count_bytes(heap, large_block_size(extent));
    }
    void *block = alloc_filled((void *)extent->start, extent_size(extent), *is_zero);
    canary_place_large_new(extent, size, *is_zero && !thread_stays_slow());
    return block;
}

static NOINLINE void *alloc_slow(size_t size)
{
    struct heap *heap = thread_enter();
    heap_tick_if_due(heap);
    bool is_zero;
    void *block = MW_CANARY && size == 0 ? hollow_take() : NULL;
    if (block == NULL) {
        block = size <= SLOT_REQUEST_MAX ? alloc_slot(heap, class_of(slot_bytes(size)), size, false)
                                         : alloc_large(heap, size, os_page_size, &is_zero);
    }
    thread_leave(heap);
    return likely(block != NULL) ? block : alloc_exhausted();
}

/* Makes a large block that has been used before zero. */
static void alloc_clear(void *block, size_t size)
{
    struct extent *extent = pagemap_find(block);
    check(extent->start == (uintptr_t)block && !extent->is_zero && extent_size(extent) >= size);
    check(extent_state(extent) == EXTENT_ACTIVE && !extent_is_slab(extent));
    canary_set_large_size(extent, 0); /* the padding goes with whole pages */
    if (!large_is_sparse(extent) || !os_purge((void *)extent->start, extent_size(extent))) {
        memset(block, 0, size);
    }
    canary_place_large(extent, size);
}

/* Whether malloc of so many bytes is to take a slot of the hit path's list all of which is looked at, and found to
 * be zero: in builds whose fill is that. */
ALWAYS_INLINE bool alloc_gets_zero(size_t size)
{
    return MW_FILL && !MW_TRACK && FILL_FREE == 0 && size <= SMALL_REQUEST_MAX &&
           class_size(class_of_slot(size + CANARY_BYTES)) <= strength.look_whole &&
           heap_self->free[class_of_slot(size + CANARY_BYTES)] != NULL;
}

static NOINLINE void *alloc_zeroed(size_t size)
{
    if (alloc_gets_zero(size)) {
        return alloc_plain(size);
    }
    if (size <= SLOT_REQUEST_MAX) {
        void *block = alloc_plain(size);
        return likely(block != NULL) ? memset(block, 0, size) : NULL;
    }
    struct heap *heap = thread_enter();
    heap_tick_if_due(heap);
    bool is_zero;
    void *block = alloc_large(heap, size, os_page_size, &is_zero);
    thread_leave(heap);
    if (unlikely(block == NULL)) {
        return alloc_exhausted();
    }
    if (unlikely(thread_stays_slow() && junk_fills_new())) {
        memset(block, 0, size);
    } else if (!is_zero) {
        alloc_clear(block, size);
    }
    return block;
}

HIT_PATH void *mw_calloc(size_t count, size_t size)
{
    size_t bytes;
    if (unlikely(__builtin_mul_overflow(count, size, &bytes))) {
        return alloc_failed();
    }
    if (MW_TRACK) {
        return tracked_alloc(&(struct track_request){
            .alignment = BLOCK_ALIGNMENT, .size = bytes, .is_zero = true, .caller = PROGRAM_PC});
    }
    /* As nothing is called before memset, no register is saved. */
    struct heap *heap = heap_self;
    if (!MW_FILL && likely(bytes <= heap->table_most)) {
        unsigned class = class_of_slot(bytes);
        if (likely(heap->free[class] != NULL)) {
            return memset(alloc_first(heap, class, bytes, 0), 0, bytes);
        }
    }
    return alloc_zeroed(bytes);
}

/* --- Alignment -------------------------------------------------------------------------------- */

/* The smallest page size: all slabs begin at multiples of it. */
#define ALIGNED_HIT_MAX 4096u
static_assert(ALIGNED_HIT_MAX <= GRANULE, "a slab begins at a granule");

/* The next slot of the hit path's list; NULL if there is none, or if it is a block of a common slab
 * that is not aligned. */
ALWAYS_INLINE void *alloc_aligned_hit(size_t alignment, size_t size)
{
    if (unlikely(alignment - 1 >= ALIGNED_HIT_MAX || size > SLOT_REQUEST_MAX)) {
        return NULL;
    }
    struct heap *heap = heap_self;
    unsigned class = class_of_aligned(alignment, size);
    struct slot *slot = heap->free[class];
    if (unlikely(slot == NULL || ((uintptr_t)slot & (alignment - 1)) != 0)) {
        return NULL;
    }
    check(class_size(class) >= size && heap == heap_self);
    heap_pop(heap, class);
    harden_slot_taken(pagemap_find(slot), slot, size, 0);
    return slot;
}

/* A slot of one of the class's own slabs, when the list is empty or has a block of a common one. */
static void *alloc_aligned_slot(unsigned class, size_t size)
{
    struct heap *heap = thread_enter();
    heap_tick_if_due(heap);
    if (heap->free[class] != NULL) {
        heap_return_list(heap, class);
    }
    check(heap->free[class] == NULL);
    void *block = alloc_slot(heap, class, size, true);
    check(block == NULL || !slab_is_common(pagemap_find(block)));
    thread_leave(heap);
    return block != NULL ? block : alloc_exhausted();
}

/* `alignment` is a power of two. */
static NOINLINE void *alloc_aligned_slow(size_t alignment, size_t size)
{
    check(is_power_of_two(alignment));
    process_init(); /* for the page size */
    if (alignment <= os_page_size && size <= SLOT_REQUEST_MAX &&
        align_up(slot_bytes(size), alignment) <= SLOT_MAX) {
        void *slot = alloc_aligned_slot(class_of_aligned(alignment, size), size);
        check(((uintptr_t)slot & (alignment - 1)) == 0);
        return slot;
    }
    struct heap *heap = thread_enter();
    heap_tick_if_due(heap);
    bool is_zero;
    void *block = alloc_large(heap, size, size_max(alignment, os_page_size), &is_zero);
    thread_leave(heap);
    return likely(block != NULL) ? block : alloc_exhausted();
}

ALWAYS_INLINE void *alloc_plain_aligned(size_t alignment, size_t size)
{
    void *block = alloc_aligned_hit(alignment, size);
    return likely(block != NULL) ? block : alloc_aligned_slow(alignment, size);
}

ALWAYS_INLINE void *alloc_aligned(size_t alignment, size_t size)
{
    if (MW_TRACK) {
        return tracked_alloc(&(struct track_request){
            .alignment = alignment, .size = size, .made = MADE_ALIGNED, .caller = PROGRAM_PC});
    }
    return alloc_note_alignment(alloc_plain_aligned(alignment, size), alignment, size);
}

void *mw_aligned_alloc(size_t alignment, size_t size)
{
    if (unlikely(!is_power_of_two(alignment))) {
        errno = EINVAL;
        return NULL;
    }
    return alloc_aligned(alignment, size);
}

void *mw_memalign(size_t alignment, size_t size)
{
    if (alignment > SIZE_MAX / 2 + 1) { /* there is no power of two to round it up to */
        errno = EINVAL;
        return NULL;
    }
    if (!is_power_of_two(alignment)) {
        alignment = alignment < 2 ? 1 : (size_t)2 << floor_log2(alignment);
    }
    return alloc_aligned(alignment, size);
}

/* errno stays as it was. */
static NOINLINE void *alloc_aligned_silent(size_t alignment, size_t size)
{
    int saved = errno;
    void *block = MW_TRACK ? alloc_aligned(alignment, size) : alloc_aligned_slow(alignment, size);
    errno = saved;
    return block;
}

int mw_posix_memalign(void **out, size_t alignment, size_t size)
{
    if (unlikely(!is_power_of_two(alignment) || alignment % sizeof(void *) != 0)) {
        return EINVAL;
    }
    void *block = MW_TRACK ? NULL : alloc_aligned_hit(alignment, size);
    if (unlikely(block == NULL)) {
        block = alloc_aligned_silent(alignment, size);
        if (block == NULL) {
            return ENOMEM;
        }
    }
    *out = alloc_note_alignment(block, alignment, size);
    return 0;
}

void *mw_valloc(size_t size)
{
    process_init();
    return alloc_aligned(os_page_size, size);
}

void *mw_pvalloc(size_t size)
{
    process_init();
    if (size > PTRDIFF_MAX) {
        return alloc_failed();
    }
    return alloc_aligned(os_page_size, size_max(align_up(size, os_page_size), os_page_size));
}
