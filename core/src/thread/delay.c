/* SPDX-License-Identifier: MIT */
#include "delay.h"

#include "../slots/rate.h"
#include "keep.h"

/* What a middle pays, which may have been in no cache, nor ever been touched. */
#define MIDDLE_PRICE (512 * KiB)

static NOINLINE struct slot *delay_fill_middle(struct slot *slot, size_t size)
{
    check(strength_spares_middle(size, strength.fill_whole));
    if (!rate_pay(RATE_OF_MIDDLES, MIDDLE_PRICE)) {
        return slot;
    }
    memset((char *)slot + FILL_EDGE, FILL_FREE, size - 2 * FILL_EDGE);
    return (struct slot *)((uintptr_t)slot | DELAY_FILLED);
}

#if MW_DELAY_FREE

ALWAYS_INLINE struct slot *entry_slot(uint64_t entry)
{
    return (struct slot *)(uintptr_t)(entry & (((uint64_t)1 << DELAY_SIZE_SHIFT) - 1));
}

ALWAYS_INLINE size_t entry_size(uint64_t entry)
{
    return (size_t)((entry & DELAY_SIZE_MASK) >> (DELAY_SIZE_SHIFT - DELAY_UNIT_LOG2));
}

/* The places of all stages, the fresh ones first. */
static uint64_t *line_place(struct delay_line *line, unsigned index)
{
    check(index < DELAY_LINE_PLACES);
    if (index < DELAY_FRESH) {
        return &line->fresh[index];
    }
    index -= DELAY_FRESH;
    return index < DELAY_RANDOM ? &line->random[index] : &line->fifo[index - DELAY_RANDOM];
}

static uint64_t delay_entry(struct heap *heap, unsigned index)
{
    struct delay *delay = &heap->delay;
    struct delay_line *line = index < DELAY_LINE_PLACES ? &delay->small : &delay->larger;
    return atomic_peek(line_place(line, index % DELAY_LINE_PLACES));
}

static struct slot *delay_at(struct heap *heap, unsigned index)
{
    return entry_slot(delay_entry(heap, index));
}

#define CHOICE_BITS 6u
#define CHOICES_END ((uint64_t)1 << (10 * CHOICE_BITS))
static_assert(1u << CHOICE_BITS == DELAY_RANDOM, "a choice is a place");

/* One of the places of the random stage; each draw of random bits is good for ten. */
ALWAYS_INLINE uint32_t delay_choose(struct delay *delay, uint64_t *left)
{
    uint64_t choices = *left;
    if (unlikely(choices <= 1)) {
        choices = (random_next(&delay->numbers) & (CHOICES_END - 1)) | CHOICES_END;
    }
    *left = choices >> CHOICE_BITS;
    return choices % DELAY_RANDOM;
}

static void delay_draw_anew(struct heap *heap)
{
    heap->delay.numbers = 0;
    heap->delay.choices = 0;
}

/* Nobody wrote between the ends of a slot while it waited. */
static NOINLINE void delay_look_at_middle(const char *call, const struct slot *slot, size_t size)
{
    const unsigned char *bytes = (const unsigned char *)slot;
    size_t middle = size - 2 * FILL_EDGE;
    if (unlikely(fill_differs(bytes + FILL_EDGE, middle, FILL_FREE) != middle)) {
        slot_tell_written(call, slot, size,
                          fill_find_written(bytes, FILL_EDGE, size - FILL_EDGE, FILL_FREE));
    }
}

/* The same of all that has the fill. */
static void delay_look_at(uint64_t entry)
{
    const struct slot *slot = entry_slot(entry);
    size_t size = entry_size(entry);
    bool is_whole =
        slot->link == FILL_FREE_WORD && slot_fill_is_whole(slot, size, strength.fill_whole);
    if (unlikely(!is_whole)) {
        harden_bad_content("sweep", slot, size);
    }
    if ((entry & DELAY_FILLED) != 0) {
        delay_look_at_middle("sweep", slot, size);
    }
}

/* One part in so many is free after what was too much has left. */
#define DELAY_SPARE 16u

/* More heaps than so many share what so many may hold: of a thousand threads the quarantines would be more than all that
 * they have in use. But each may hold one part in so many of what a lone one may; of the larger slots that is still some. */
#define DELAY_HEAPS 16u
#define DELAY_LEAST 8u
#define DELAY_LEAST_LARGER 2u

static void delay_follow_crowd(struct heap *heap)
{
    size_t all = strength.delay_bytes;
    size_t share = all / size_max(atomic_get(&heaps.in_use), DELAY_HEAPS) * DELAY_HEAPS;
    heap->delay.small.most = size_max(share, all / DELAY_LEAST);
    heap->delay.larger.most = size_max(share, all / DELAY_LEAST_LARGER);
}

/* Most that leave are of slabs that the heap owns: as in free of the other builds. */
ALWAYS_INLINE void delay_hand_back(struct heap *heap, struct slot *slot)
{
    struct extent *extent = pagemap_find(slot);
    struct slab *slab = &extent->slab;
    if (likely(atomic_get(&extent->owner) == heap) && likely(slab->left > 1)) {
        slot_push(&slab->local, slot);
        slab->left--;
    } else {
        heap_takes_back(heap, extent, slot);
    }
}

/* A slot that has left can be handed out again. Its first bytes are looked at, as the link will be written over
 * them, and its middle if that was filled at a rate; the rest before it is used again, or when its slab is empty. */
ALWAYS_INLINE void delay_release(struct heap *heap, uint64_t entry)
{
    struct slot *slot = entry_slot(entry);
    size_t size = entry_size(entry);
    check(size == slot_block_size(pagemap_find(slot), slot));
    uint64_t differs = slot_near_differs(slot, size_min(size, FILL_NEAR));
    if (unlikely(((slot->link ^ FILL_FREE_WORD) | differs) != 0)) {
        harden_bad_content("free", slot, size);
    }
    if (unlikely((entry & DELAY_FILLED) != 0)) {
        delay_look_at_middle("free", slot, size);
    }
    delay_hand_back(heap, slot);
}

/* Takes what is in a place; 0 if nothing is. The child of a fork has it in one place at most. */
ALWAYS_INLINE uint64_t line_take(struct delay_line *line, uint64_t *place)
{
    uint64_t entry = *place;
    *place = 0;
    order_stores();
    check(line->bytes >= entry_size(entry));
    line->bytes -= entry_size(entry);
    return entry;
}

/* The oldest of the ring, or any of the random stage if the ring is empty. 0 if nothing is there: the count is
 * wrong where a signal handler that frees came in the middle of a turn. */
static uint64_t line_take_next(struct delay *delay, struct delay_line *line)
{
    if (line->first != line->end) {
        return line_take(line, &line->fifo[line->first++ % DELAY_FIFO]);
    }
    uint32_t at = delay_choose(delay, &delay->choices);
    for (uint32_t end = at + DELAY_RANDOM; at != end; at++) {
        if (line->random[at % DELAY_RANDOM] != 0) {
            return line_take(line, &line->random[at % DELAY_RANDOM]);
        }
    }
    return 0;
}

/* Settles those of the fresh ones that are not. The child of a fork may lose one of another thread's, but
 * finds none that is settled and does not say so. */
static NOINLINE void line_settle(struct delay_line *line)
{
    uint64_t *fresh = line->fresh;
    line->has_unsettled = false;
    for (uint32_t i = 0; i < DELAY_FRESH; i++) {
        uint64_t entry = fresh[i];
        if ((entry & DELAY_UNSETTLED) != 0) {
            entry &= ~DELAY_UNSETTLED;
            fresh[i] = entry;
            order_stores();
            slot_settle(entry_slot(entry), entry_size(entry));
        }
    }
}

static void delay_settle(struct heap *heap)
{
    line_settle(&heap->delay.small);
    line_settle(&heap->delay.larger);
}

static bool line_has_unsettled(struct delay_line *line, const void *slot)
{
    for (uint32_t i = 0; i < DELAY_FRESH; i++) {
        uint64_t entry = atomic_peek(&line->fresh[i]);
        if ((entry & DELAY_UNSETTLED) != 0 && entry_slot(entry) == slot) {
            return true;
        }
    }
    return false;
}

static bool delay_has_unsettled(struct heap *heap, const void *slot)
{
    return line_has_unsettled(&heap->delay.small, slot) ||
           line_has_unsettled(&heap->delay.larger, slot);
}

/* Each of the fresh ones takes a place of the random stage, what was there one of the ring, and if that is
 * full the oldest leaves. Returns how many leave. */
ALWAYS_INLINE uint32_t line_move_on(struct delay *delay, struct delay_line *line,
                                    uint64_t leaving[])
{
    uint32_t leave = 0;
    uint32_t end = line->end;
    uint32_t count = line->fresh_count;
    uint64_t choices = delay->choices;
    size_t bytes = 0;
    check(count <= DELAY_FRESH);
    for (uint32_t i = 0; i < count; i++) {
        uint64_t entry = line->fresh[i];
        line->fresh[i] = 0;
        order_stores();
        uint64_t *place = &line->random[delay_choose(delay, &choices)];
        uint64_t moved = *place;
        *place = entry;
        order_stores();
        if (likely(moved != 0)) {
            uint64_t *at = &line->fifo[end++ % DELAY_FIFO];
            uint64_t oldest = *at; /* 0 if the ring is not full */
            *at = moved;
            __builtin_prefetch(entry_slot(oldest));
            leaving[leave] = oldest;
            leave += oldest != 0;
            bytes += entry_size(oldest);
        }
    }
    line->fresh_count = 0;
    delay->choices = choices;
    line->end = end;
    line->first += leave;
    check(line->end - line->first <= DELAY_FIFO && line->bytes >= bytes);
    line->bytes -= bytes;
    return leave;
}

/* Whether there was one. */
static bool line_release_next(struct heap *heap, struct delay_line *line)
{
    uint64_t entry = line_take_next(&heap->delay, line);
    if (likely(entry != 0)) {
        delay_release(heap, entry);
    }
    return entry != 0;
}

static NOINLINE void delay_turn(struct heap *heap, size_t size)
{
    struct delay_line *line = delay_line_of(heap, size);
    if (line->has_unsettled) {
        line_settle(line);
    }
    if (unlikely(strength.delay_bytes == 0)) {
        line->fresh_count = 0; /* nothing waits */
        delay_hand_back(heap, entry_slot(line_take(line, &line->fresh[0])));
        return;
    }
    uint64_t leaving[DELAY_FRESH];
    uint32_t leave = line_move_on(&heap->delay, line, leaving);
    for (uint32_t i = 0; i < leave; i++) {
        delay_release(heap, leaving[i]);
    }
    if (unlikely(line->bytes > line->most)) {
        /* Some more than have to, so that the next frees of large slots need no turn each. */
        size_t most = line->most - line->most / DELAY_SPARE;
        while (line->bytes > most) {
            if (unlikely(!line_release_next(heap, line))) {
                line->bytes = 0;
            }
        }
    }
}

static void line_empty(struct heap *heap, struct delay_line *line)
{
    if (line->bytes == 0) {
        return;
    }
    line_settle(line);
    line->fresh_count = 0;
    for (unsigned i = 0; i < DELAY_LINE_PLACES; i++) {
        uint64_t entry = line_take(line, line_place(line, i));
        if (entry != 0) {
            delay_release(heap, entry);
        }
    }
    line->first = line->end;
}

static void delay_empty(struct heap *heap)
{
    line_empty(heap, &heap->delay.small);
    line_empty(heap, &heap->delay.larger);
    check(delay_is_empty(heap));
}

static void delay_shorten(struct heap *heap)
{
    struct delay_line *lines[] = {&heap->delay.small, &heap->delay.larger};
    for (unsigned i = 0; i < array_count(lines); i++) {
        if (lines[i]->has_unsettled) {
            line_settle(lines[i]);
        }
        while (lines[i]->first != lines[i]->end && line_release_next(heap, lines[i])) {
        }
    }
}

static void line_pass_on(struct delay_line *line, struct heap *to)
{
    line_settle(line);
    line->fresh_count = 0;
    for (unsigned i = DELAY_LINE_PLACES; i-- > 0;) {
        uint64_t entry = line_take(line, line_place(line, i));
        const struct slot *slot = (const struct slot *)(uintptr_t)(entry & ~DELAY_SIZE_MASK);
        if (entry != 0 && delay_put(to, slot, entry_size(entry))) {
            delay_turn(to, entry_size(entry));
        }
    }
    line->first = line->end;
}

static void delay_pass_on(struct heap *from, struct heap *to)
{
    line_pass_on(&from->delay.small, to);
    line_pass_on(&from->delay.larger, to);
    check(delay_is_empty(from));
}

static void delay_check(struct heap *heap)
{
    for (unsigned i = 0; i < DELAY_PLACES; i++) {
        uint64_t entry = delay_entry(heap, i);
        if (entry != 0) {
            delay_look_at(entry);
        }
    }
}

static bool delay_is_empty(struct heap *heap)
{
    return heap->delay.small.bytes == 0 && heap->delay.larger.bytes == 0;
}

#else

static void delay_follow_crowd(struct heap *heap)
{
    (void)heap;
}

static void delay_draw_anew(struct heap *heap)
{
    (void)heap;
}

static struct slot *delay_at(struct heap *heap, unsigned index)
{
    (void)heap;
    (void)index;
    return NULL;
}

static bool delay_has_unsettled(struct heap *heap, const void *slot)
{
    (void)heap;
    (void)slot;
    return false;
}

static void delay_settle(struct heap *heap)
{
    (void)heap;
}

static void delay_turn(struct heap *heap, size_t size)
{
    (void)heap;
    (void)size;
}

static void delay_check(struct heap *heap)
{
    (void)heap;
}

static void delay_empty(struct heap *heap)
{
    (void)heap;
}

static void delay_shorten(struct heap *heap)
{
    (void)heap;
}

static void delay_pass_on(struct heap *from, struct heap *to)
{
    (void)from;
    (void)to;
}

static bool delay_is_empty(struct heap *heap)
{
    (void)heap;
    return true;
}

#endif
