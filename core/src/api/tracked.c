/* SPDX-License-Identifier: MIT
 *
 *   tracked_alloc   a slot or pages, larger by the red zones; notes who called
 *   tracked_free    checks the red zones, fills the slot or takes access to the pages away, puts
 *                   the block into the quarantine, and gives back what leaves it
 *
 * Large blocks change their place and their access only under the quarantine's lock, so that a
 * sweep, which holds it, reads nothing that traps.
 *
 * Blocks of explicit arenas, and those that are asked for by an arena's number, are not tracked: such
 * an arena takes all its blocks back at any time, with nothing of them in the quarantine.
 */
#include "tracking.h"

#include "../memory/meta.h"
#include "../os/memcheck.h"
#include "../os/trap.h"
#include "../thread/thread.h"
#include "free.h"

/* Blocks that leave the quarantine with one that comes in: more than one, so that it shrinks again
 * after large blocks. */
#define LEAVE_MOST 4u

/* --- Samples of a profile --------------------------------------------------------------------- */

/* A block that is new, or has another size. No lock is held: what it stands for may begin a dump. */
static NOINLINE void block_maybe_sample(struct track *track)
{
    uint64_t word = atomic_get(&track->word);
    size_t size = track_size(word);
    if (!alloc_is_sampled(size)) {
        return;
    }
    struct sample sample = sample_begin((void *)track_block(track), size, NULL, 0);
    atomic_set(&track->sample_stack, sample.stack);
    atomic_set(&track->sample_epoch, sample.epoch);
    atomic_set(&track->word, word | TRACK_SAMPLED);
    sample_note(sample, size);
}

/* The block, with the word that it had, is given back, or gets another size or place. */
ALWAYS_INLINE void block_drop_sample(struct track *track, uint64_t word)
{
    if (unlikely((word & TRACK_SAMPLED) != 0)) {
        struct sample sample = {atomic_get(&track->sample_stack), atomic_get(&track->sample_epoch),
                                0}; /* no block of the debug build is thinned out */
        sample_end(sample, (void *)track_block(track), track_size(word));
        atomic_set(&track->word, atomic_get(&track->word) & ~TRACK_SAMPLED);
    }
}

/* --- Quarantine ------------------------------------------------------------------------------- */

/* A large chosen block has no memory there, but more address space than others: it waits so many times
 * as long, as nobody comes to its place then. */
#define CHOSEN_ROUNDS 16u

/* Gives a block that has left the quarantine to the plain allocator. */
static void block_leaves(uintptr_t block, bool may_stay)
{
    struct extent *extent = pagemap_find((void *)block);
    struct track *track = track_find((void *)block);
    check(track != NULL && track_state(atomic_get(&track->word)) == TRACK_FREED);
    if (extent_is_slab(extent)) {
        void *start = (void *)track_slot_start(track);
        memcheck_tell(MEMCHECK_DEFINED, start, slot_block_size(extent, start));
        free_plain(start);
        return;
    }
    lock_take(&quarantine.lock);
    struct track_table *table = track_table(extent);
    size_t weight = table->is_chosen ? SLOT_MAX / 2 : extent_size(extent);
    bool stays = may_stay && table->is_chosen && track_size(atomic_get(&track->word)) > SLOT_MAX &&
                 atomic_get(&chosen_count) < CHOSEN_MOST / 2 && ++table->rounds < CHOSEN_ROUNDS &&
                 quarantine_put_locked(block, weight);
    bool is_done = !stays && unguard_pages(extent);
    if (is_done) {
        name_block_granule(extent, block, false);
        atomic_sub(&chosen_count, table->is_chosen);
        table->is_chosen = false;
    } else if (!stays) { /* the kernel has no room for mappings: later, perhaps */
        quarantine_put_locked(block, weight);
    }
    lock_release(&quarantine.lock);
    if (is_done) {
        memcheck_tell(MEMCHECK_DEFINED, (void *)extent->start, extent_size(extent));
        free_plain((void *)extent->start); /* which may come to hooks, and hooks may free */
    }
}

static bool tracked_release_all_blocks(void)
{
    lock_take(&quarantine.lock);
    size_t count = quarantine.count;
    lock_release(&quarantine.lock);
    for (size_t i = 0; i < count; i++) {
        lock_take(&quarantine.lock);
        uintptr_t block = quarantine.count != 0 ? quarantine_take_locked(0) : 0;
        lock_release(&quarantine.lock);
        if (block != 0) {
            block_leaves(block, false);
        }
    }
    return count != 0;
}

static size_t quarantine_limit(void)
{
    long limit = option(OPTION_quarantine);
    return limit < 0 ? 0 : (size_t)limit;
}

/* The block is FREED. */
static void block_enters(struct extent *extent, struct track *track)
{
    uintptr_t block = track_block(track);
    size_t size = extent_size(extent);
    if (extent_is_slab(extent)) {
        void *start = (void *)track_slot_start(track);
        size = slot_block_size(extent, start);
        memset(start, FILL_FREE, size);
    }
    uintptr_t leaving[LEAVE_MOST];
    unsigned count = 0;
    lock_take(&quarantine.lock);
    if (!extent_is_slab(extent)) {
        struct track_table *table = track_table(extent);
        trap_keep();
        table->guard |= (uint8_t)os_guard((void *)extent->start, size);
        size = table->is_chosen ? size_min(size, SLOT_MAX / 2) : size; /* the rest is no memory */
    }
    size_t limit = quarantine_limit();
    if (!quarantine_put_locked(block, size)) {
        leaving[count++] = block;
    }
    while (count < LEAVE_MOST && (leaving[count] = quarantine_take_locked(limit)) != 0) {
        count++;
    }
    lock_release(&quarantine.lock);
    for (unsigned i = 0; i < count; i++) {
        block_leaves(leaving[i], true);
    }
}

/* --- Sweeps ----------------------------------------------------------------------------------- */

static bool sweep_block(struct track *track, void *context)
{
    (void)context;
    uint64_t word = atomic_get_acquire(&track->word); /* pairs with block_begins */
    if (track_state(word) == TRACK_LIVE) {
        uintptr_t block = track_block(track);
        struct zones zones = track_zones(pagemap_find((void *)block), track);
        if (!zones_are_whole(&zones) && atomic_get_ordered(&track->word) == word &&
            track_block(track) == block) {
            track_check_zones(track, &zones, "sweep", 0);
        }
    }
    return true;
}

/* Other threads may allocate and free meanwhile: a block that is freed just now is no longer LIVE,
 * and cannot leave the quarantine before the end of the sweep. */
static void tracked_sweep_all(void)
{
    memcheck_enter();
    lock_take(&quarantine.lock);
    track_visit(sweep_block, NULL);
    quarantine_check_locked();
    lock_release(&quarantine.lock);
    memcheck_leave();
}

static bool (*const heap_check_all)(void);

/* The option check_every: the whole heap, after every so many calls. */
static void check_now_and_then(void)
{
    static _Atomic uint64_t calls;
    long every = option(OPTION_check_every);
    if (unlikely(every > 0) && atomic_add(&calls, 1) % (uint64_t)every == (uint64_t)every - 1) {
        heap_check_all();
    }
}

/* --- Allocation ------------------------------------------------------------------------------- */

/* What the program finds in a new block. */
static void fill_new(void *block, const struct track_request *request, bool is_slot)
{
    if (request->is_zero || option(OPTION_zero)) {
        if (is_slot || !request->is_zero) {
            memset(block, 0, request->size);
        }
    } else if (is_slot || request->size <= SLOT_MAX || junk_fills_new()) {
        memset(block, FILL_NEW, request->size);
    }
}

ALWAYS_INLINE void tell_of_zones(const struct zones *zones)
{
    memcheck_tell(MEMCHECK_NO_ACCESS, zones->start, (size_t)(zones->block - zones->start));
    memcheck_tell(MEMCHECK_NO_ACCESS, zones->block_end, (size_t)(zones->end - zones->block_end));
}

ALWAYS_INLINE void tell_of_new(const struct zones *zones, bool is_zero)
{
    tell_of_zones(zones);
    memcheck_allocated(zones->block, (size_t)(zones->block_end - zones->block), is_zero);
}

/* Memory for tables that arenas give where the system has no more: at most, and at least, which is enough for any. */
#define TABLES_SHARE (512 * KiB)
#define TABLES_SHARE_MIN (128 * KiB)

/* As for a block that there is no memory for, all that is free goes back to the system. What lies between
 * blocks in use stays: tables that need more than that lie there too. */
static COLD struct track *track_make_again(struct extent *extent, const void *block)
{
    tracked_release_all_blocks();
    struct heap *heap = thread_enter();
    heap_reclaim(heap);
    thread_leave(heap);
    struct track *track = track_make(extent, block);
    for (size_t size = TABLES_SHARE; track == NULL && size >= TABLES_SHARE_MIN; size /= 2) {
        void *share = alloc_zeroed(size);
        if (share != NULL) {
            meta_give(share, size);
            track = track_make(extent, block);
        }
    }
    return track;
}

static void *block_begins(const struct track_request *request, const struct track_layout *layout,
                          char *start, uint32_t stack)
{
    struct extent *extent = pagemap_find(start);
    char *block = start + layout->front;
    struct track *track = track_make(extent, block);
    if (unlikely(track == NULL)) {
        track = track_make_again(extent, block);
    }
    if (unlikely(track == NULL)) {
        if (layout->is_slot) {
            memset(start, FILL_FREE, slot_block_size(extent, start));
        }
        free_plain(start);
        return NULL;
    }
    size_t alignment = layout->front == 0 ? 1 : request->alignment;
    uint64_t word = track_word(request->size, alignment, request->made) |
                    (uint64_t)request->is_aligned_form << 10;
    bool is_slot = extent_is_slab(extent);
    atomic_set(&track->inverted, ~(uintptr_t)block);
    track_set_allocated(track, stack);
    atomic_set(&track->word, word & ~(uint64_t)TRACK_LIVE);
    if (!is_slot) {
        lock_take(&quarantine.lock);
        track_table(extent)->is_chosen = layout->is_chosen;
        track_table(extent)->rounds = 0;
        atomic_add(&chosen_count, layout->is_chosen);
        atomic_add(&chosen_ever, layout->is_chosen);
        guard_pages(extent, track);
        name_block_granule(extent, (uintptr_t)block, true);
        lock_release(&quarantine.lock);
    }
    struct zones zones = track_zones(extent, track);
    zones_fill(&zones);
    fill_new(block, request, is_slot);
    atomic_set_release(&track->word, word); /* pairs with sweep_block */
    tell_of_new(&zones, request->is_zero || option(OPTION_zero));
    return block;
}

/* A block without red zones, from the explicit arena that serves the thread. */
static void *take_untracked(struct direct *direct, const struct track_request *request)
{
    bool is_zero;
    void *block = alloc_untracked(direct, request->alignment, request->size, &is_zero);
    if (block == NULL) {
        return alloc_failed();
    }
    return request->is_zero && !is_zero ? memset(block, 0, request->size) : block;
}

static void *tracked_obtain(const struct track_request *request)
{
    check(is_power_of_two(request->alignment));
    if (unlikely(!alloc_is_possible(request->alignment, request->size))) {
        return alloc_failed();
    }
    struct direct *direct = thread_bound_direct();
    if (unlikely(direct != NULL)) {
        return take_untracked(direct, request);
    }
    uint32_t stack = calls_keep(request->caller);
    struct track_layout layout = layout_of(request->alignment, request->size);
    size_t far = 0;
    bool is_chosen = layout.is_slot && block_is_chosen(stack);
    if (is_chosen || !layout.is_slot) {
        far = layout.is_slot ? 0 : far_guard(request->size, stack);
        layout = layout_on_pages(request, is_chosen || far != 0, far);
    }
    void *start = take_plain(request, &layout);
    if (unlikely(start == NULL) && layout.is_chosen) {
        layout = layout_scarce(request);
        start = take_plain(request, &layout);
    }
    if (unlikely(start == NULL) && tracked_release_all_blocks()) {
        start = take_plain(request, &layout);
    }
    void *block = start != NULL ? block_begins(request, &layout, start, stack) : NULL;
    if (likely(block != NULL)) {
        block_maybe_sample(track_find(block));
    }
    check_now_and_then();
    return likely(block != NULL) ? block : alloc_failed();
}

static void *tracked_alloc_block(const struct track_request *request)
{
    if (unlikely(os_page_size == 0)) {
        process_init();
    }
    memcheck_enter();
    void *block = tracked_obtain(request);
    memcheck_leave();
    return block;
}

/* --- Free ------------------------------------------------------------------------------------- */

/* Whether the program holds a block that is not tracked. */
static bool block_is_untracked(struct extent *extent, const void *block)
{
    if (!extent_is_direct(extent) || extent_state(extent) != EXTENT_ACTIVE) {
        return false;
    }
    bool is_held = extent_is_slab(extent)
                       ? slab_has_slot(extent, block) && slot_is_held(extent, block)
                       : (uintptr_t)block == extent->start;
    return is_held && track_find_around(extent, block) == NULL;
}

/* The track of a block that the program holds. Ends the program if `block` is memory of ours, but
 * none; NULL if it is foreign, or not tracked. */
static struct track *track_of_live(const char *call, const void *block, uintptr_t caller)
{
    struct track *track = track_find(block);
    if (likely(track != NULL && track_state(atomic_get(&track->word)) == TRACK_LIVE)) {
        return track;
    }
    struct extent *around = extent_around(block);
    if (around != NULL && !block_is_untracked(around, block)) {
        track_bad_pointer(call, block, around, caller);
        bad_block(call, block, around);
    }
    return NULL;
}

/* Whether a block is released by another family of functions than made it. */
static bool made_is_mixed(uint64_t word, const struct track_return *given)
{
    enum made made = track_made(word);
    if (!made_by_new(made) || !made_by_new(given->made)) {
        return made_by_new(made) != made_by_new(given->made);
    }
    return made != given->made || track_is_aligned_form(word) != (given->alignment != 0);
}

/* A free whose family, size or alignment is not that of the block. */
static void check_return(struct track *track, const void *block, const struct track_return *given)
{
    uint64_t word = atomic_get(&track->word);
    size_t alignment = track_alignment(word);
    bool fits_size = given->size == SIZE_MAX || given->size == track_size(word);
    bool fits_alignment =
        given->alignment == 0 || alignment == 1 || /* 1: too large to be noted */
        size_max(given->alignment, BLOCK_ALIGNMENT) == size_max(alignment, BLOCK_ALIGNMENT);
    bool is_mixed = mixes_told != MIXES_NONE && made_is_mixed(word, given);
    if (likely(fits_size && fits_alignment && !is_mixed)) {
        return;
    }
    struct fault fault = {.call = given->call, .pointer = block, .caller = given->caller};
    char who[BLAME_WHO];
    track_describe(track, &fault, who);
    if (is_mixed &&
        mix_is_likely(&fault, made_by_new(track_made(word)), made_by_new(given->made))) {
        fault.kind = FAULT_KIND_MISMATCH;
        fault_tell(&fault, "%s of %p (%zu bytes%s), which was allocated by %s", given->call, block,
                   track_size(word), who, made_name(track_made(word), track_is_aligned_form(word)));
        return;
    }
    if (!fits_size) {
        fault.kind = FAULT_SIZE_MISMATCH;
        fault_tell(&fault, "free of %p with a size of %zu bytes, but the block has %zu%s", block,
                   given->size, track_size(word), who);
        return;
    }
    if (!fits_alignment) {
        fault.kind = FAULT_ALIGNMENT_MISMATCH;
        fault_tell(&fault, "free of %p with an alignment of %zu, but the block has %zu (%s)", block,
                   given->alignment, alignment, who + 2);
    }
}

/* LIVE becomes FREED, once: of two threads that free one block one comes too late. */
static bool track_try_free(struct track *track)
{
    uint64_t word = atomic_get(&track->word);
    return track_state(word) == TRACK_LIVE &&
           atomic_replace(&track->word, &word, (word & ~(uint64_t)3) | TRACK_FREED);
}

static void tracked_release(void *block, const struct track_return *given)
{
    struct track *track = track_of_live(given->call, block, given->caller);
    if (unlikely(track == NULL)) {
        free_plain(block); /* foreign, or not tracked */
        return;
    }
    struct extent *extent = pagemap_find(block);
    struct zones zones = track_zones(extent, track);
    track_check_zones(track, &zones, given->call, given->caller);
    check_return(track, block, given);
    if (unlikely(!track_try_free(track))) {
        track_bad_pointer(given->call, block, extent, given->caller);
    }
    block_drop_sample(track, atomic_get(&track->word));
    atomic_set(&track->freed_stack, calls_keep(given->caller));
    atomic_set(&track->freed_thread, track_thread_number());
    memcheck_tell(MEMCHECK_FREED, block, 0);
    block_enters(extent, track);
    check_now_and_then();
}

static void tracked_free_block(void *block, const struct track_return *given)
{
    if (block != NULL) {
        memcheck_enter();
        tracked_release(block, given);
        memcheck_leave();
    }
}

/* --- Sizes ------------------------------------------------------------------------------------ */

static size_t tracked_block_size(const char *call, const void *block, uintptr_t caller)
{
    struct track *track = track_of_live(call, block, caller);
    if (track == NULL) {
        struct extent *extent = pagemap_find(block);
        if (block_is_untracked(extent, block)) {
            return block_size(extent, block);
        }
        foreign_function(call, block);
        return 0;
    }
    struct zones zones = track_zones(pagemap_find(block), track);
    memcheck_enter();
    track_check_zones(track, &zones, call, caller);
    memcheck_leave();
    return track_size(atomic_get(&track->word));
}

static bool tracked_holds_block(const char *call, const void *block, uintptr_t caller)
{
    return track_of_live(call, block, caller) != NULL ||
           block_is_untracked(pagemap_find(block), block);
}

static bool block_is_tracked(const void *block)
{
    return track_find(block) != NULL;
}

static size_t tracked_resize_block(void *block, size_t least, size_t most)
{
    struct track *track = track_find(block);
    struct extent *extent = pagemap_find(block);
    lock_take(&quarantine.lock); /* no sweep meanwhile */
    struct zones zones = track_zones(extent, track);
    uintptr_t guarded = guard_start(track);
    size_t reach = (size_t)(zones.end - zones.block) - (extent_is_slab(extent) ? ZONE_MIN : 0);
    if (least <= reach) {
        size_t old_size = (size_t)(zones.block_end - zones.block);
        block_drop_sample(track, atomic_get(&track->word));
        track_set_size(track, size_min(most, reach));
        guard_left_pages(extent, track, guarded);
        zones = track_zones(extent, track);
        memcheck_enter();
        zones_fill(&zones);
        memcheck_resized(block, old_size, size_min(most, reach));
        tell_of_zones(&zones);
        memcheck_leave();
    }
    lock_release(&quarantine.lock);
    if (least <= reach) {
        block_maybe_sample(track);
    }
    return track_size(atomic_get(&track->word));
}

/* --- Realloc ---------------------------------------------------------------------------------- */

/* Pages get longer or shorter, and may get another address. NULL if they have to be copied. */
static void *resize_pages(struct extent *extent, struct track *track, size_t size, uintptr_t caller)
{
    uint64_t word = atomic_get(&track->word);
    size_t front = track_block(track) - extent->start;
    size_t old_size = track_size(word);
    uint32_t stack = calls_keep(caller);
    if (extent_is_slab(extent) || extent_is_direct(extent) ||
        track_alignment(word) > BLOCK_ALIGNMENT || !resize_keeps_pages(old_size, size, stack)) {
        return NULL;
    }
    void *old = (void *)track_block(track);
    if (align_up((uintptr_t)old + size, os_page_size) == guard_start(track)) {
        tracked_resize_block(old, size, size);
        track_set_allocated(track, stack);
        return old;
    }
    memcheck_enter();
    lock_take(&quarantine.lock);
    name_block_granule(extent, track_block(track), false);
    bool done = unguard_pages(extent) && realloc_pages(extent, front + size + os_page_size);
    char *block = (char *)extent->start + front;
    if (done) {
        block_drop_sample(track, word);
        atomic_set(&track->inverted, ~(uintptr_t)block);
        track_set_allocated(track, stack);
        track_set_size(track, size);
    }
    guard_pages(extent, track);
    name_block_granule(extent, track_block(track), true);
    struct zones zones = track_zones(extent, track);
    zones_fill(&zones);
    if (done && unlikely(memcheck_is_here)) {
        memcheck_tell(MEMCHECK_FREED, old, 0);
        tell_of_new(&zones, true); /* what was copied is */
    }
    lock_release(&quarantine.lock);
    if (done) {
        block_maybe_sample(track);
    }
    memcheck_leave();
    return done ? block : NULL;
}

static void *tracked_realloc_block(void *block, size_t size, uintptr_t caller)
{
    struct track *track = track_of_live("realloc", block, caller);
    check(track != NULL && size != 0);
    struct extent *extent = pagemap_find(block);
    struct zones zones = track_zones(extent, track);
    memcheck_enter();
    track_check_zones(track, &zones, "realloc", caller);
    memcheck_leave();
    check_return(track, block, &(struct track_return){"realloc", SIZE_MAX, 0, caller, 0});
    size_t old_size = track_size(atomic_get(&track->word));
    void *moved = resize_pages(extent, track, size, caller);
    if (moved != NULL) {
        fill_grown(moved, old_size, size);
        return moved;
    }
    struct track_request request = {
        .alignment = BLOCK_ALIGNMENT, .size = size, .reach = old_size, .caller = caller};
    moved = tracked_alloc_block(&request);
    if (moved == NULL) {
        if (size > old_size) {
            return NULL;
        }
        tracked_resize_block(block, size, size); /* making it smaller never fails */
        return block;
    }
    bytes_copy(moved, block, size_min(old_size, size));
    uint64_t word = atomic_get(&track->word); /* its family was looked at above */
    size_t alignment = track_is_aligned_form(word) ? track_alignment(word) : 0;
    tracked_free_block(
        block, &(struct track_return){"realloc", SIZE_MAX, alignment, caller, track_made(word)});
    return moved;
}

static void tracked_begin(void)
{
    trap_watch(guard_trapped);
}

static void (*const tracked_start)(void) = tracked_begin;
static void *(*const tracked_alloc)(const struct track_request *) = tracked_alloc_block;
static void (*const tracked_free)(void *, const struct track_return *) = tracked_free_block;
static void *(*const tracked_realloc)(void *, size_t, uintptr_t) = tracked_realloc_block;
static bool (*const tracked_holds)(const char *, const void *, uintptr_t) = tracked_holds_block;
static bool (*const tracked_knows)(const void *) = block_is_tracked;
static size_t (*const tracked_size)(const char *, const void *, uintptr_t) = tracked_block_size;
static size_t (*const tracked_resize)(void *, size_t, size_t) = tracked_resize_block;
static bool (*const tracked_release_all)(void) = tracked_release_all_blocks;
static void (*const tracked_sweep)(void) = tracked_sweep_all;
