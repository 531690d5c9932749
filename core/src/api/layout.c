/* SPDX-License-Identifier: MIT
 *
 * Where a tracked block lies (slots/track.h): in a slot between red zones, or on pages between guards,
 * which blocks that fit into slots get pages as well, and which keep theirs in realloc. A fault is mostly
 * committed again and again at one place of the program, so the first blocks of each call stack are worth
 * the most.
 */
#include "../os/trap.h"
#include "alloc.h"
#include "foreign.h"
#include "tracking.h"

/* Behind a block in a slot there are so many bytes at least. */
#define ZONE_MIN 16u

/* Above this alignment there is no red zone in front. */
#define FRONT_MAX (64 * MiB)

/* Blocks on pages that would fit into slots, at most, and what guard_sample is unless it is set. Where
 * the kernel has no guards but mappings of no access, a process has 65,530 of these by default. */
#define CHOSEN_MOST 4096u
#define CHOSEN_EVERY 1000

/* What is asked of the plain allocator for a block. */
struct track_layout {
    size_t front;
    size_t total;
    bool is_slot;
    bool is_chosen; /* it would fit into a slot, or has far guards */
};

static struct track_layout layout_of(size_t alignment, size_t size)
{
    size_t front = size_max(alignment, ZONE_MIN);
    size_t total = front + size + ZONE_MIN;
    bool is_slot = alignment <= os_page_size && align_up(total, alignment) <= SLOT_MAX;
    return (struct track_layout){front, total, is_slot, false};
}

/* Guards before the block and behind it, where the block ends as near as its alignment allows: a page, or
 * those of a far index. A block of no bytes is the start of the page behind. */
static struct track_layout layout_on_pages(const struct track_request *request, bool is_chosen,
                                           size_t far)
{
    size_t size = request->size;
    size_t alignment = size_max(request->alignment, ZONE_MIN);
    size_t front = 0;
    if (alignment <= FRONT_MAX) {
        size_t left = size_max(align_up(size, os_page_size), os_page_size) - size;
        front = align_up(size_max(far, os_page_size), alignment) + (left & ~(alignment - 1));
    }
    check(front % alignment == 0);
    size_t total = front + size_max(size, request->reach) + size_max(far, os_page_size);
    return (struct track_layout){front, size_max(total, SLOT_MAX + 1), false, is_chosen};
}

/* Where there is no memory for guards that others do not have: the least that serves. */
static struct track_layout layout_scarce(const struct track_request *request)
{
    struct track_layout layout = layout_of(request->alignment, request->size);
    return layout.is_slot ? layout : layout_on_pages(request, false, 0);
}

static void *take_plain(const struct track_request *request, const struct track_layout *layout)
{
    if (request->alignment > BLOCK_ALIGNMENT) {
        return alloc_plain_aligned(request->alignment, layout->total);
    }
    return layout->is_slot || !request->is_zero ? alloc_plain(layout->total)
                                                : alloc_zeroed(layout->total);
}

static _Atomic uint32_t chosen_count; /* blocks that are chosen */
static _Atomic uint32_t chosen_ever;  /* also those that are no longer there */

/* Of a call stack: its blocks that fit into slots, and the larger ones that may have far guards. */
enum { SLOTS_SEEN = STACK_FIGURES_OF_PROFILE, FAR_SEEN };

/* What an index that nobody compared with a length may reach: a few times the block, on both sides. It is
 * address space alone, but some of the kernel's time, and counted as in use. So of large blocks up to
 * FAR_BLOCK_MOST the first ones of each call stack have it, where there is no memory_limit. */
#define FAR_TIMES 4u
#define FAR_BLOCK_MOST (8 * MiB)

/* How many of the first blocks of a call stack are chosen, unless guard_first says it. A chosen block costs three
 * calls of the kernel and new memory, some 7 us: with eight of each stack a shell took five times the fast build's time,
 * half of it for that. So it is eight until CHOSEN_FREELY were, as in a test of a library; one until
 * CHOSEN_SPARSELY; then one of one stack in CHOSEN_ONE_OF. */
#define CHOSEN_FIRST 8u
#define CHOSEN_FREELY 512u
#define CHOSEN_SPARSELY 2048u
#define CHOSEN_ONE_OF 16u

static uint64_t chosen_first(uint32_t stack_number)
{
    long first = option(OPTION_guard_first);
    uint32_t ever = atomic_get(&chosen_ever);
    if (first >= 0) {
        return (uint64_t)first;
    }
    if (ever < CHOSEN_FREELY) {
        return CHOSEN_FIRST;
    }
    return ever < CHOSEN_SPARSELY || stack_number % CHOSEN_ONE_OF == 0;
}

static size_t far_guard(size_t size, uint32_t stack_number)
{
    struct call_stack *stack = store_get(stack_number);
    if (stack == NULL || size > FAR_BLOCK_MOST || option(OPTION_memory_limit) != 0 ||
        atomic_get(&chosen_count) >= CHOSEN_MOST ||
        atomic_add(&stack->figures[FAR_SEEN], 1) >= chosen_first(stack_number)) {
        return 0;
    }
    return align_up(FAR_TIMES * size, os_page_size);
}

/* Whether a block of a call stack gets pages though it fits into a slot. They are more than SLOT_MAX,
 * nearly all of it address space alone, but a memory_limit counts it: there no block is chosen. */
static bool block_is_chosen(uint32_t stack_number)
{
    struct call_stack *stack = store_get(stack_number);
    if (stack == NULL || option(OPTION_memory_limit) != 0 ||
        atomic_get(&chosen_count) >= CHOSEN_MOST) {
        return false;
    }
    uint64_t before = atomic_add(&stack->figures[SLOTS_SEEN], 1);
    long every = option(OPTION_guard_sample);
    every = every >= 0 ? every : CHOSEN_EVERY;
    return before < chosen_first(stack_number) ||
           (every > 0 && before % (uint64_t)every == (uint64_t)every - 1);
}

/* The first whole page behind a large block. */
static uintptr_t guard_start(struct track *track)
{
    uintptr_t block = track_block(track);
    return align_up(block + track_size(atomic_get(&track->word)), os_page_size);
}

/* Puts pages without access behind a block of pages and before it. */
static void guard_pages(struct extent *extent, struct track *track)
{
    struct track_table *table = track_table(extent);
    trap_keep();
    uintptr_t start = guard_start(track);
    uintptr_t page = track_block(track) & ~(uintptr_t)(os_page_size - 1);
    if (start < extent_end(extent)) {
        table->guard |= (uint8_t)os_guard((void *)start, extent_end(extent) - start);
    }
    if (page > extent->start) {
        table->guard |= (uint8_t)os_guard((void *)extent->start, page - extent->start);
    }
}

/* A block has got another size where it is, and its guards began there before: the pages that it has left lose their
 * access. It does not get them back, as no guard is taken away for that. */
static void guard_left_pages(struct extent *extent, struct track *track, uintptr_t before)
{
    if (!extent_is_slab(extent) && guard_start(track) < before) {
        guard_pages(extent, track);
    }
}

static bool unguard_pages(struct extent *extent)
{
    struct track_table *table = track_table(extent);
    bool done = os_unguard((void *)extent->start, extent_size(extent), table->guard);
    table->guard = done ? 0 : table->guard;
    return done;
}

static COLD void guard_tell(struct track *track, const struct trap *trap)
{
    struct fault fault = {.kind = FAULT_OUT_OF_BOUNDS};
    char who[BLAME_WHO];
    track_describe(track, &fault, who);
    if (!access_is_inside(&fault, trap->address)) {
        blame_access(&fault, who, trap);
    }
}

/* Ends the program if the access was beside a large block, or to one that was freed. No other pages are
 * without access, but those that the program has taken it away from itself. */
static void guard_trapped(const struct trap *trap)
{
    struct extent *extent = extent_around((void *)trap->address);
    if (extent == NULL || extent_is_slab(extent)) {
        return;
    }
    struct track *track = track_find_around(extent, (void *)trap->address);
    if (track != NULL) {
        guard_tell(track, trap);
    }
}

/* The page map knows the ends of large blocks only; one with a large alignment begins elsewhere. */
static void name_block_granule(struct extent *extent, uintptr_t block, bool is_named)
{
    uintptr_t granule = block & ~(GRANULE - 1);
    if (!extent_is_slab(extent) && granule != extent->start &&
        granule != extent_end(extent) - GRANULE) {
        pagemap_set(granule, is_named ? extent : NULL);
    }
}

/* What realloc copies is found by a stale pointer, and ends with a page again. Blocks of pages are copied
 * when their size passes a power of two, for a block that grows step by step would be copied at each of
 * them; between, and from RESIZE_MOST on, they keep their pages, or the kernel moves these. Below RESIZE_MIN the first
 * ones of a call stack, those that may have far guards, are copied each time. */
#define RESIZE_MIN (128 * KiB)
#define RESIZE_MOST (16 * MiB)

static bool resize_keeps_pages(size_t old_size, size_t size, uint32_t stack_number)
{
    size_t least = size_min(old_size, size);
    if (least <= SLOT_MAX) {
        return false;
    }
    if (least < RESIZE_MIN && option(OPTION_memory_limit) == 0) {
        struct call_stack *stack = store_get(stack_number);
        if (stack == NULL || atomic_get(&stack->figures[FAR_SEEN]) < chosen_first(stack_number)) {
            return false;
        }
    }
    return least >= RESIZE_MOST || floor_log2(old_size) == floor_log2(size);
}
