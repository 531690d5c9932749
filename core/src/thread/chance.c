/* SPDX-License-Identifier: MIT */
#include "chance.h"

/* Of the blocks that lie in lists at most one in so many is a sample. */
#define LISTED_PER_SAMPLE 256u

static size_t list_size(unsigned list)
{
    return list < CLASSES ? class_size(list)
                          : page_class_pages(page_class_of_block(list)) << os_page_shift;
}

static double heap_points(const struct heap *heap, unsigned list, unsigned thinning)
{
    double points = sampler_points(&heap->sampler, list_size(list), thinning);
    return list < CLASSES ? points + profile.guard_rate : points;
}

static unsigned heap_listed_end_now(const struct heap *heap)
{
    if (!heap_is_sampling(heap) || !heap->sampler.takes_profile) {
        return PAGE_CLASSES;
    }
    uint64_t most = profile_distance_bytes(heap->sampler.thinning) / LISTED_PER_SAMPLE;
    if (most >= LARGE_MAX) {
        return PAGE_CLASSES;
    }
    size_t pages = most >> os_page_shift;
    return pages != 0 ? page_class_below(pages) + 1 : 0;
}

/* The list of the largest slots or blocks that the program may put. */
static unsigned heap_largest_list(const struct heap *heap)
{
    if (heap->is_private) {
        size_t end = size_min(heap->listed_end, page_class_of_block(LIST_CLASSES - 1) + 1);
        return block_class_of((unsigned)end - 1);
    }
    return heap->classes_used != 0 ? floor_log2(heap->classes_used) : 0;
}

static void heap_set_candidate(struct heap *heap, unsigned largest)
{
    struct candidate *candidate = &heap->candidate;
    unsigned thinning = heap->sampler.thinning;
    candidate->largest = largest;
    candidate->thinning = (uint8_t)thinning;
    candidate->behind = CANDIDATE_UNDRAWN;
    candidate->points = heap_points(heap, candidate->largest, thinning);
    if (candidate->largest >= CLASSES) { /* or the largest slots, which may be guarded */
        double of_slots = heap_points(heap, CLASSES - 1, thinning);
        candidate->points = candidate->points < of_slots ? of_slots : candidate->points;
    }
}

static NOINLINE void heap_draw_candidate(struct heap *heap)
{
    struct candidate *candidate = &heap->candidate;
    unsigned largest = heap_largest_list(heap);
    if (candidate->largest != largest || candidate->thinning != heap->sampler.thinning) {
        heap_set_candidate(heap, largest);
    }
    if (heap->until_tick < 0) {
        return;
    }
    uint32_t end = (uint32_t)heap->until_tick + 1;
    uint32_t puts = candidate->behind;
    if (puts == CANDIDATE_UNDRAWN) {
        puts = sampler_turns(&heap->sampler, candidate->points);
    }
    if (puts >= end) {
        candidate->behind = puts - end;
        return;
    }
    candidate->behind = CANDIDATE_UNDRAWN;
    heap->tick_rest = heap->until_tick - (int32_t)puts + 1;
    heap->until_tick = (int32_t)puts;
}

static void heap_redraw_candidate(struct heap *heap)
{
    heap_set_until_tick(heap, heap_until_tick(heap));
}

static uint32_t heap_turns_of(struct heap *heap, unsigned list)
{
    check(heap->is_sampling && list < LIST_CLASSES);
    return sampler_turns(&heap->sampler, heap_points(heap, list, heap->sampler.thinning));
}

static bool heap_turn_is_sample(struct heap *heap, unsigned list)
{
    struct sampler *sampler = &heap->sampler;
    check(heap_is_sampling(heap) && list < LIST_CLASSES);
    sampler->taken_thinning = sampler->thinning;
    return sampler_turns_up_to(sampler, heap_points(heap, list, sampler->thinning), 1) == 0;
}

static bool heap_takes_candidate(struct heap *heap, unsigned list)
{
    struct sampler *sampler = &heap->sampler;
    check(heap_is_sampling(heap) && !heap_is_anothers(heap));
    if (heap->until_tick >= 0 || (heap->until_tick == -1 && heap->tick_rest == 0)) {
        return false;
    }
    if (heap->until_tick < -1) { /* the tick that is due would have drawn the next candidate */
        return heap_turn_is_sample(heap, list);
    }
    sampler->taken_thinning = heap->candidate.thinning;
    double points = heap_points(heap, list, heap->candidate.thinning);
    return sampler_narrows(sampler, points, heap->candidate.points);
}

static void heap_defer_sample(struct heap *heap, unsigned class, uint32_t slots)
{
    uint64_t bit = (uint64_t)1 << class;
    if (!heap_is_sampling(heap)) {
        return;
    }
    if ((heap->sample_known & bit) == 0) {
        heap_set_until_sample(heap, class, heap_turns_of(heap, class));
        heap->sample_thinning[class] = heap->sampler.thinning;
        heap->sample_known |= bit;
    }
    heap->sample_at[class] += slots;
}

static void heap_await_sample(struct heap *heap, unsigned class, uint8_t thinning, uint32_t others)
{
    uint64_t bit = (uint64_t)1 << class;
    check(heap_is_sampling(heap) && heap->free[class] == NULL);
    bool is_known = (heap->sample_known & bit) != 0 && heap->sample_thinning[class] == thinning;
    uint32_t behind = is_known ? heap_until_sample(heap, class) : heap_turns_of(heap, class);
    heap->sample_known |= bit;
    heap_set_until_sample(heap, class, 0);
    heap->sample_thinning[class] = thinning;
    heap->until_next[class] = thinning == heap->sampler.thinning ? others + behind + 1 : 0;
}
