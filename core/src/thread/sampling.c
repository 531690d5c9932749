/* SPDX-License-Identifier: MIT */
#include "sampling.h"

#include "chance.h"
#include "magazine.h"
#include "stack.h"

static void heap_start_sampling(struct heap *heap, bool takes_profile)
{
    check(!heap->is_sampling && heap->tick_rest == 0 && heap->sample_known == 0);
    if (HEAPS_SAMPLE) {
        stack_set_private(heap, false); /* chance had no say in what lies in the lists */
    }
    for (unsigned class = 0; class < CLASSES; class ++) {
        heap_forget_sample(heap, class);
    }
    sampler_begin(&heap->sampler, takes_profile);
    heap->is_sampling = true;
    heap_set_candidate(heap, heap_largest_list(heap)); /* by the rate that there is now */
    heap_redraw_candidate(heap);
    check(!HEAPS_SAMPLE || !heap->is_private);
}

static void heap_stop_sampling(struct heap *heap)
{
    if (!heap_chooses_samples(heap)) {
        return;
    }
    if (HEAPS_SAMPLE) {
        stack_set_private(heap, false);
    }
    heap->sample_known = 0;
    heap->is_sampling = false;
    heap_redraw_candidate(heap); /* there is none any longer */
}

static void heap_follow_profile(struct heap *heap)
{
    bool takes_profile = profile_is_wanted() && heap->may_sample;
    bool is_wanted = (takes_profile || profile.guard_rate != 0) && heap->thread != NULL;
    bool is_current = heap->sampler.round == atomic_get(&profile.round) &&
                      heap->sampler.takes_profile == takes_profile;
    if (likely(is_wanted == heap_chooses_samples(heap) && (is_current || !is_wanted))) {
        return;
    }
    if (HEAPS_SAMPLE) {
        heap_return_lists(heap);
    }
    heap_stop_sampling(heap);
    if (is_wanted) {
        heap_start_sampling(heap, takes_profile);
    }
}

static bool heap_sample_is_due(struct heap *heap, unsigned class)
{
    check(heap->is_sampling && heap->free[class] == NULL);
    uint64_t bit = (uint64_t)1 << class;
    if ((heap->sample_known & bit) == 0) {
        heap_set_until_sample(heap, class, heap_turns_of(heap, class));
        heap->sample_thinning[class] = heap->sampler.thinning;
        heap->sample_known |= bit;
    }
    if (heap_until_sample(heap, class) != 0) {
        return false;
    }
    heap->sampler.taken_thinning = heap->sample_thinning[class];
    uint32_t next = heap->until_next[class];
    heap_forget_sample(heap, class);
    if (next != 0) {
        heap_set_until_sample(heap, class, next - 1);
        heap->sample_known |= bit;
    }
    return true;
}

static bool heap_takes_guard(struct heap *heap, unsigned class)
{
    return sampler_takes_guard(&heap->sampler, class_size(class), heap->sampler.taken_thinning);
}

/* The list of a class was filled. Where samples have become more frequent, chance begins anew behind it: else the next
 * one would come late. And where there was no memory for the sample that was due. */
static void heap_note_handed(struct heap *heap, unsigned class)
{
    uint32_t until = heap_until_sample(heap, class);
    bool is_far =
        until > INT32_MAX / 2; /* as far as can be drawn, and perhaps farther; or behind */
    if (unlikely(is_far || heap->sample_thinning[class] > heap->sampler.thinning) && until != 0) {
        heap_forget_sample(heap, class);
    }
}

/* For one call at most so many slots come from a slab; the heap's own limits are then restored. */
struct list_limits {
    uint16_t list_max, uncut_most;
};

static struct list_limits heap_limit_lists(struct heap *heap, uint32_t most)
{
    struct list_limits before = {heap->list_max, heap->uncut_most};
    heap->list_max = (uint16_t)size_min(before.list_max, most);
    heap->uncut_most = (uint16_t)size_min(before.uncut_most, most);
    return before;
}

static void heap_restore_lists(struct heap *heap, struct list_limits before)
{
    heap->list_max = before.list_max;
    heap->uncut_most = before.uncut_most;
}

static struct slot *heap_take_local_sampling(struct heap *heap, unsigned class)
{
    struct bin *bin = &heap->bins[class];
    uint32_t until = heap_until_sample(heap, class);
    if (until == 0) {
        return NULL;
    }
    struct list_limits before = heap_limit_lists(heap, until);
    struct slot *slot =
        heap_prefers_ready(bin) ? heap_take_next(heap, bin) : heap_take_local(heap, bin->current);
    heap_restore_lists(heap, before);
    heap_note_handed(heap, class);
    return slot;
}

static struct slot *heap_refill_sampling(struct heap *heap, unsigned class, bool must_be_aligned)
{
    /* Without memory for a sample this call is none. */
    uint32_t until = heap_until_sample(heap, class);
    uint32_t most = until != 0 ? until : 1;
    struct list_limits before = heap_limit_lists(heap, most);
    struct slot *slot = class_is_medium(class) ? magazine_fill(heap, class, must_be_aligned)
                                               : heap_refill(heap, class, must_be_aligned);
    heap_restore_lists(heap, before);
    check(until == 0 || heap_until_sample(heap, class) <= until);
    heap_note_handed(heap, class);
    if (class > heap->candidate.largest) {
        heap_redraw_candidate(heap); /* no slots as large were put before */
    }
    return slot;
}

/* --- Blocks of pages -------------------------------------------------------------------------- */

/* A block counts with the size of its class: its extent may be larger. */
static size_t block_counted(size_t size)
{
    return large_rounded_pages(size) << os_page_shift;
}

static void heap_maybe_sample_counted(struct heap *heap, struct extent *extent, size_t counted)
{
    if (unlikely(sampler_takes(&heap->sampler, counted))) {
        sample_take(extent, counted, &heap->sampler);
    }
}

static NOINLINE void heap_maybe_sample(struct heap *heap, struct extent *extent, size_t size)
{
    heap_maybe_sample_counted(heap, extent, block_counted(size));
}

static NOINLINE void heap_sample_pages(struct heap *heap, struct extent *extent, size_t size)
{
    check(heap_is_sampling(heap));
    size_t counted = block_counted(size);
    if (heap->listed_block != extent || extent_size(extent) != counted) {
        heap_maybe_sample_counted(heap, extent, counted);
    } else if (heap->listed_is_sample) {
        sample_take(extent, extent_size(extent), &heap->sampler);
    }
}
