/* SPDX-License-Identifier: MIT */
#include "magazine.h"

#include "../settings/conf.h"
#include "chance.h"
#include "heap_common.h"
#include "moving.h"
#include "remote.h"
#include "stack.h"
#include "tray.h"

static NOINLINE void *alloc_first_larger(struct heap *heap, unsigned class, size_t size,
                                         uint8_t family)
{
    struct slot *slot = heap->free[class];
    struct extent *extent = heap->bins[class].current;
    uint64_t index = extent != NULL ? slab_slot_number(extent, slot) : UINT64_MAX;
    if (unlikely(extent == NULL || index >= extent->slab.capacity)) {
        return alloc_first_of_any(heap, class, size, family);
    }
    harden_first_taken(extent, &heap->free[class], index, size, family, false);
    heap->rooms[class]++;
    return slot;
}

static NOINLINE void *alloc_first_of_any(struct heap *heap, unsigned class, size_t size,
                                         uint8_t family)
{
    struct slot *slot = heap->free[class];
    struct extent *extent = harden_slot_leaves(slot, class);
    heap->free[class] = slot_next(slot);
    heap->rooms[class]++;
    harden_slot_taken(extent, slot, size, family);
    return slot;
}

/* The most that the limit of one magazine may be: so many bytes, but at least MAGAZINE_LEAST and at
 * most MAGAZINE_MOST slots, unless settings say otherwise. It grows by LIMIT_STEP slots with each visit to
 * the depot. */
#define MAGAZINE_BYTES (1 * MiB)
#define MAGAZINE_MOST 64u
#define MAGAZINE_LEAST 4u
#define LIMIT_STEP 2u

/* What jemalloc calls large begins above this size, and a limit is a number of 16 bits. */
#define SLOTS_SMALL_MAX (14 * KiB)
#define MAGAZINE_MOST_EVER 4096
static_assert(MAGAZINE_MOST_EVER + 2 <= INT16_MAX, "a limit fits");

#define LISTED_MEDIUM (CLASSES - SMALL_CLASSES)

/* const after the start */
static struct {
    uint32_t least;
    uint32_t most;
    uint32_t most_large;
    int32_t shift; /* of what MAGAZINE_BYTES says */
    bool some_are_none;
    uint16_t of_class[LISTED_MEDIUM]; /* 1 more than what holds instead; 0: nothing else does */
} magazine_bounds = {.least = MAGAZINE_LEAST, .most = MAGAZINE_MOST, .most_large = MAGAZINE_MOST};

static uint32_t bound_of(enum conf_id id)
{
    long value = conf_value(conf_at(id));
    return (uint32_t)(value < MAGAZINE_MOST_EVER ? value : MAGAZINE_MOST_EVER);
}

/* tcache_ncached_max: from the class of one size to that of another. */
static void magazines_load_ranges(void)
{
    const char *text = conf_text(conf_at(CONF_tcache_ncached_max));
    const long largest = SLOT_MAX - CANARY_BYTES;
    struct conf_range range;
    while (conf_next_range(&text, &range)) {
        if (range.first > largest) {
            continue;
        }
        long last = range.last < largest ? range.last : largest;
        long most = range.value < MAGAZINE_MOST_EVER ? range.value : MAGAZINE_MOST_EVER;
        unsigned class = class_of(size_max((size_t)range.first, 1) + CANARY_BYTES);
        for (; class <= class_of(size_max((size_t)last, 1) + CANARY_BYTES); class ++) {
            if (class_is_medium(class)) {
                magazine_bounds.of_class[class - SMALL_CLASSES] = (uint16_t)(most + 1);
                magazine_bounds.some_are_none |= most == 0;
            }
        }
    }
}

static void magazines_load(void)
{
    magazines_load_ranges();
    magazine_bounds.least = bound_of(CONF_tcache_nslots_small_min);
    magazine_bounds.most = bound_of(CONF_tcache_nslots_small_max);
    magazine_bounds.most_large = bound_of(CONF_tcache_nslots_large);
    magazine_bounds.shift = (int32_t)conf_value(conf_at(CONF_lg_tcache_nslots_mul));
}

/* As in jemalloc the upper bound wins. */
static uint32_t magazine_most(unsigned class)
{
    uint32_t slot_size = class_size(class);
    int32_t shift = magazine_bounds.shift;
    check(class_is_medium(class));
    if (magazine_bounds.of_class[class - SMALL_CLASSES] != 0) {
        return magazine_bounds.of_class[class - SMALL_CLASSES] - 1u;
    }
    uint64_t most = MAGAZINE_BYTES / slot_size;
    most = shift >= 0 ? most << shift : most >> -shift;
    if (slot_size > SLOTS_SMALL_MAX) {
        return (uint32_t)size_min(most, magazine_bounds.most_large);
    }
    return (uint32_t)size_min(size_max(most, magazine_bounds.least), magazine_bounds.most);
}

/* A thread that empties a magazine to half for the so-many-th time without filling it, where the arena has
 * no room for another batch, frees what it will not need soon: the limit is halved then, and with each
 * further time. Of random replacement, which fills and empties as often, that is true once in 2^8 visits;
 * of who frees some hundred blocks more than the batches hold and allocates as many anew, never. */
#define EMPTIED_MOST 8u

/* The same in a crowd, where each full magazine counts, also one that may grow, and the limit may fall to 0: the few
 * slots that so many sleeping threads keep pin many slabs. */
#define EMPTIED_MOST_IN_CROWD 4u

/* The limits of a heap's magazines add up to at most heap_part of HEAP_MAGAZINES. They may always add up to
 * an equal part of HEAPS_LEAST, whatever the number of arenas, and to HEAP_LEAST. A lower bound stops growth;
 * what was granted before is taken back when the heap settles. */
#define HEAP_MAGAZINES (16 * MiB)
#define HEAPS_LEAST (4 * MiB)
#define HEAP_LEAST (64 * KiB)

static size_t magazines_budget(struct heap *heap)
{
    size_t all = heaps_within_limit(HEAPS_LEAST);
    size_t least = size_max(all / size_max(atomic_get(&heaps.in_use), 1), HEAP_LEAST);
    return size_max(heap_part(heap, HEAP_MAGAZINES), least);
}

static void magazine_grow(struct heap *heap, unsigned class)
{
    int16_t *limit = heap_limit(heap, class);
    uint32_t slot_size = class_size(class);
    uint32_t most = magazine_most(class);
    size_t more = LIMIT_STEP * slot_size;
    if ((uint32_t)*limit + LIMIT_STEP <= most &&
        heap->magazine_bytes + more <= magazines_budget(heap)) {
        *limit = (int16_t)(*limit + (int)LIMIT_STEP);
        heap->magazine_bytes += more;
        check(heap->magazine_bytes >= (size_t)*limit * slot_size);
    }
}

static void magazine_shrink(struct heap *heap, unsigned class)
{
    int16_t *limit = heap_limit(heap, class);
    uint32_t half = (uint32_t)*limit / 2;
    size_t less = ((uint32_t)*limit - half) * (size_t)class_size(class);
    check(heap->magazine_bytes >= less && magazine_count(heap, class) <= half);
    heap->magazine_bytes -= less;
    *limit = (int16_t)half;
}

/* In a crowd, and of a thread that calls rarely or clears up, nobody may come for what lies in a batch for long. */
static bool magazine_may_give_batch(struct heap *heap, const struct magazine *magazine)
{
    return !magazine->was_filled_from_holes && heap->list_max != LIST_MAX_IDLE &&
           !heap->clears_up && !heap_is_of_crowd(heap);
}

static void magazine_empty(struct heap *heap, unsigned class)
{
    struct slot *list = heap->free[class];
    check((list == NULL) == (heap->rooms[class] == 0));
    check_slow(magazine_is_valid(heap, class));
    if (list == NULL) {
        return;
    }
    moving_begin(heap);
    heap->free[class] = NULL;
    heap_count_flush(heap, class, magazine_count(heap, class));
    heap_defer_sample(heap, class, magazine_count(heap, class));
    magazine_set_count(heap, class, 0);
    heap_return_others(heap, list, class);
    moving_end(heap);
}

/* The turn of a slot in the list is a sample: the list is set aside as a whole, where that may be, for the heap comes
 * back for it after the next call. It leaves the heap first: the child of a fork must not find it in both places. */
static NOINLINE void magazine_mark(struct heap *heap, unsigned class, uint8_t thinning)
{
    struct magazine *magazine = heap_magazine(heap, class);
    struct slot *list = heap->free[class];
    uint32_t count = magazine_count(heap, class);
    check(heap_is_sampling(heap) && list != NULL);
    moving_begin(heap);
    heap->free[class] = NULL;
    heap_count_flush(heap, class, count);
    magazine_set_count(heap, class, 0);
    heap_await_sample(heap, class, thinning, count - 1);
    if (!magazine_may_give_batch(heap, magazine) ||
        !depot_put_batch(heap->arena, class, list, count)) {
        heap_return_others(heap, list, class);
    }
    moving_end(heap);
    check_slow(magazine_is_valid(heap, class));
}

/* The same of a slot that no put brought, and chance is asked at once. */
static void magazine_note_spread(struct heap *heap, unsigned class)
{
    heap->sample_at[class]++; /* it is none of those that the countdown is for */
    if (heap_turn_is_sample(heap, class)) {
        magazine_mark(heap, class, heap->sampler.taken_thinning);
    }
}

/* Empties the tray of an arena into the magazines, as far as they have room, and the rest into the
 * depot. Returns what there was of one class, of which the magazine is empty, if not more than `most`. */
static struct slot *magazine_take_tray(struct heap *heap, struct arena *arena, unsigned class,
                                       uint32_t most, uint32_t *count)
{
    struct slot *of_class = NULL;
    struct slot *rest = NULL;
    bool is_spread = heap->list_max != LIST_MAX_IDLE;
    *count = 0;
    if (!tray_has_slots(arena)) {
        return NULL;
    }
    lock_take(&tray_lock);
    struct slot *list = tray_take_slots(arena);
    while (list != NULL) {
        struct slot *slot = list;
        depot_slot_check(slot);
        unsigned class_now = pagemap_find(slot)->slab.class;
        list = slot_next(slot);
        if (class_now == class && *count < most) {
            slot_push(&of_class, slot);
            ++*count;
        } else if (is_spread && class_now != class && magazine_wants(heap, class_now)) {
            slot_push(&heap->free[class_now], slot);
            heap->rooms[class_now]--;
            heap->counts[class_now].handed++;
            heap->until_tick--;
            if (unlikely(heap_is_sampling(heap))) {
                magazine_note_spread(heap, class_now);
            }
            check_slow(magazine_is_valid(heap, class_now));
        } else {
            slot_push(&rest, slot);
        }
    }
    if (rest != NULL) {
        heap_send_to_depot(heap, rest);
    }
    lock_release(&tray_lock);
    check(*count <= most && (of_class == NULL) == (*count == 0));
    return of_class;
}

/* Slots from the tray or the depot of an arena, the heap's own first; if none has any, from holes or a
 * new slab. */
static struct slot *magazine_take(struct heap *heap, unsigned class, uint32_t want,
                                  bool may_be_in_hole, uint32_t *count)
{
    struct slot *list = NULL;
    unsigned arenas_in_use = arena_count();
    for (unsigned i = 0; i < arenas_in_use && list == NULL; i++) {
        struct arena *arena = arena_at((heap->arena->index + i) % arenas_in_use);
        list = magazine_take_tray(heap, arena, class, want, count);
        if (list == NULL) {
            list = depot_take(arena, class, want, count);
        }
    }
    bool looks_for_holes = list == NULL && may_be_in_hole;
    if (looks_for_holes) {
        list = heap_take_holes(heap, class, want, count);
    }
    heap_magazine(heap, class)->was_filled_from_holes = looks_for_holes && list != NULL;
    while (list == NULL) {
        size_t post = slab_post_pages();
        struct extent *extent = heap_take_pages(heap, depot_slab_pages(heap->arena, class) + post);
        if (extent == NULL) {
            extent = heap_take_pages(heap, class_least_pages(class) + post);
        }
        if (extent == NULL) {
            return NULL;
        }
        slab_add_post(extent, post);
        depot_add(extent, class);
        heap->counts[class].slabs++;
        /* Other threads may be faster; then there is another slab, and so on. */
        list = depot_take(arena_of(extent), class, want, count);
    }
    return list;
}

static struct slot *magazine_fill(struct heap *heap, unsigned class, bool must_be_aligned)
{
    struct magazine *magazine = heap_magazine(heap, class);
    check(heap->free[class] == NULL && heap->rooms[class] == 0 && !heap_is_anothers(heap));
    heap_note_class(heap, class);
    uint32_t want =
        heap->list_max == LIST_MAX_IDLE ? 1 : (uint32_t)*heap_limit(heap, class) / 2 + 1;
    if (unlikely(heap_is_sampling(heap)) && want > heap->list_max) {
        want = heap->list_max;
    }
    uint32_t count;
    struct slot *slot = magazine_take(heap, class, want, !must_be_aligned, &count);
    if (slot == NULL) {
        return NULL;
    }
    check(count > 0 && count <= want && slab_has_slot(pagemap_find(slot), slot));
    magazine_grow(heap, class);
    magazine->emptied = 0;
    heap->free[class] = slot_next(slot);
    magazine_set_count(heap, class, count - 1);
    heap->until_tick -= (int32_t)count;
    heap_count_fill(heap, class, count);
    check_slow(magazine_is_valid(heap, class));
    return slot;
}

static bool magazine_is_draining(struct heap *heap, unsigned class)
{
    uint8_t visits = heap_magazine(heap, class)->emptied;
    return heap_is_of_crowd(heap)
               ? visits >= EMPTIED_MOST_IN_CROWD
               : visits >= EMPTIED_MOST && *heap_limit(heap, class) >= 2 * (int)MAGAZINE_LEAST;
}

/* Takes all slots off a magazine but so many, which were freed last. */
static struct slot *magazine_cut(struct heap *heap, unsigned class, uint32_t keep)
{
    struct slot *rest = heap->free[class];
    struct slot *last = NULL;
    check(keep < magazine_count(heap, class));
    for (uint32_t i = 0; i < keep; i++) {
        list_slot_check(rest, class);
        last = rest;
        rest = slot_next(rest);
    }
    if (last != NULL) {
        slot_set_next(last, NULL);
    } else {
        heap->free[class] = NULL;
    }
    heap_count_flush(heap, class, magazine_count(heap, class) - keep);
    heap_defer_sample(heap, class, magazine_count(heap, class) - keep);
    magazine_set_count(heap, class, keep);
    check(rest != NULL);
    return rest;
}

static NOINLINE void magazine_put_slow(struct heap *heap, struct extent *extent, struct slot *slot)
{
    unsigned class = extent->slab.class;
    struct magazine *magazine = heap_magazine(heap, class);
    check(class_is_medium(class) && !magazine_wants(heap, class));
    heap_note_class(heap, class);
    if (*heap_limit(heap, class) == 0) {
        check(heap->rooms[class] == 0 && heap->free[class] == NULL);
        if (unlikely(magazine_bounds.some_are_none) && magazine_most(class) == 0) {
            slot_set_next(slot, NULL);
            heap_return_others(heap, slot, class); /* nothing of this size is to wait anywhere */
            return;
        }
        heap_free_to_tray(heap, extent, slot); /* a thread that does not allocate such slots */
        return;
    }
    bool is_draining = magazine_is_draining(heap, class);
    if (!is_draining) {
        magazine_grow(heap, class);
    }
    bool is_full = !magazine_wants(heap, class);
    bool is_kept = false;
    if (is_full) {
        uint32_t keep = (uint32_t)*heap_limit(heap, class) / (is_draining ? 4 : 2);
        uint32_t given_up = magazine_count(heap, class) - keep;
        moving_begin(heap);
        struct slot *rest = magazine_cut(heap, class, keep);
        is_kept = !is_draining && magazine_may_give_batch(heap, magazine) &&
                  depot_put_batch(heap->arena, class, rest, given_up);
        if (!is_kept) {
            heap_return_others(heap, rest, class);
        }
        moving_end(heap);
    }
    if ((is_full && !is_kept) || heap_is_of_crowd(heap)) {
        magazine->emptied = (unsigned)size_min(magazine->emptied + 1u, EMPTIED_MOST) & 127u;
    }
    if (is_draining) {
        magazine_shrink(heap, class);
    }
    if (!magazine_try_put(heap, class, slot)) {
        check(is_draining && *heap_limit(heap, class) == 0);
        heap_free_to_tray(heap, extent, slot);
    } else if (unlikely(heap_is_sampling(heap))) {
        magazine_note_put(heap, class);
    }
    check_slow(magazine_is_valid(heap, class));
}

static void magazine_note_put(struct heap *heap, unsigned class)
{
    check(heap_is_sampling(heap) && class_is_medium(class));
    if (heap_takes_candidate(heap, class)) {
        magazine_mark(heap, class, heap->sampler.taken_thinning);
    }
}

static void magazine_return(struct heap *heap, unsigned class)
{
    magazine_empty(heap, class);
    magazine_shrink(heap, class);
    check_slow(magazine_is_valid(heap, class));
}

static bool magazine_is_valid(struct heap *heap, unsigned class)
{
    int16_t limit = *heap_limit(heap, class);
    uint32_t count = 0;
    for (struct slot *slot = heap->free[class]; slot != NULL; slot = slot_next(slot)) {
        struct extent *extent = pagemap_find(slot);
        require(slab_is_common(extent) ? common_block_size(extent, slot) >= class_size(class)
                                       : extent->slab.class == class);
        require(++count <= magazine_count(heap, class));
    }
    return count == magazine_count(heap, class) && heap->rooms[class] + limit >= 0 &&
           heap->magazine_bytes >= (size_t)limit * class_size(class);
}
