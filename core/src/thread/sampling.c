/* SPDX-License-Identifier: MIT */
#include "sampling.h"

#include "magazine.h"
#include "stack.h"

static void heap_start_sampling(struct heap *heap, bool takes_profile)
{
    check(!heap->is_sampling && heap->tick_bias == 0 && heap->sample_known == 0);
    sampler_begin(&heap->sampler, takes_profile);
    heap->is_sampling = true;
    if (!HEAPS_SAMPLE) {
        return;
    }
    if (heap_is_sampling_pages(heap)) {
        stack_set_private(heap, false);
    }
    heap->tick_bias = TICK_BIAS;
    heap->until_tick -= TICK_BIAS;
    for (unsigned class = SMALL_CLASSES; class < CLASSES; class ++) {
        heap->until_mark[class - SMALL_CLASSES] = sampler_slots(&heap->sampler, class_size(class));
    }
    check(!(heap->is_private && heap_is_sampling_pages(heap)) && heap->until_tick < 0);
}

static void heap_stop_sampling(struct heap *heap)
{
    if (!heap_chooses_samples(heap)) {
        return;
    }
    heap->sample_known = 0;
    heap->is_sampling = false;
    heap->until_tick += heap->tick_bias;
    heap->tick_bias = 0;
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
        heap->until_sample[class] = sampler_slots(&heap->sampler, class_size(class));
        heap->sample_known |= bit;
    }
    if (heap->until_sample[class] != 0) {
        return false;
    }
    heap->sample_known &= ~bit;
    return true;
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

static struct slot *heap_take_local_sampling(struct heap *heap, struct extent *extent)
{
    unsigned class = extent->slab.class;
    bool is_known = (heap->sample_known & (uint64_t)1 << class) != 0;
    if (!is_known || heap->until_sample[class] == 0 || heap->until_tick + heap->tick_bias < 0) {
        return NULL;
    }
    uint64_t handed = heap->counts[class].handed;
    struct list_limits before = heap_limit_lists(heap, heap->until_sample[class]);
    struct slot *slot = heap_take_local(heap, extent);
    heap_restore_lists(heap, before);
    heap->until_sample[class] -= (uint32_t)(heap->counts[class].handed - handed);
    return slot;
}

static struct slot *heap_refill_sampling(struct heap *heap, unsigned class, bool must_be_aligned)
{
    uint64_t handed = heap->counts[class].handed;
    /* Without memory for a sample this call is none. */
    bool is_known = (heap->sample_known & (uint64_t)1 << class) != 0;
    uint32_t most = is_known ? heap->until_sample[class] : 1;
    struct list_limits before = heap_limit_lists(heap, most);
    struct slot *slot = class_is_medium(class) ? magazine_fill(heap, class, must_be_aligned)
                                               : heap_refill(heap, class, must_be_aligned);
    heap_restore_lists(heap, before);
    handed = heap->counts[class].handed - handed;
    check(handed <= most);
    heap->until_sample[class] -= (uint32_t)handed;
    return slot;
}
