/* SPDX-License-Identifier: MIT */
#include "delay.h"

#if MW_DELAY_FREE

#define PLACES (DELAY_RANDOM + DELAY_FIFO)

static struct slot *delay_at(struct heap *heap, unsigned index)
{
    struct delay *delay = &heap->delay;
    if (index >= PLACES) {
        return NULL;
    }
    return index < DELAY_RANDOM ? atomic_peek(&delay->random[index])
                                : atomic_peek(&delay->fifo[index - DELAY_RANDOM]);
}

/* Xorshift (Marsaglia 2003), from a random start. */
static uint32_t delay_choose(struct delay *delay)
{
    uint64_t seed = delay->seed != 0 ? delay->seed : random_bits() | 1;
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    delay->seed = seed;
    return random_below(seed >> 32, DELAY_RANDOM);
}

/* Nobody wrote to the slot while it waited. It is looked at now, as it may not be used again before
 * the program ends. */
ALWAYS_INLINE void delay_look_at(const struct slot *slot, size_t size)
{
    bool is_whole = slot->link == FILL_FREE_WORD && slot_fill_is_whole(slot, size);
    if (unlikely(!is_whole)) {
        harden_bad_content(slot, size);
    }
}

static void delay_take_out(struct delay *delay, struct slot *slot)
{
    size_t size = slot_block_size(pagemap_find(slot), slot);
    delay_look_at(slot, size);
    check(delay->bytes >= size);
    delay->bytes -= size;
}

/* Takes what is in a place; NULL if nothing is. */
static struct slot *delay_take(struct delay *delay, struct slot **place)
{
    struct slot *slot = *place;
    if (slot != NULL) {
        *place = NULL;
        order_stores(); /* a child of fork has it in one place at most */
        delay_take_out(delay, slot);
    }
    return slot;
}

static NOINLINE void delay_shorten(struct heap *heap)
{
    struct delay *delay = &heap->delay;
    for (unsigned i = 0; i < PLACES && delay->bytes > DELAY_BYTES; i++) {
        unsigned oldest = (delay->next + i) % DELAY_FIFO;
        struct slot **place =
            i < DELAY_FIFO ? &delay->fifo[oldest] : &delay->random[i - DELAY_FIFO];
        struct slot *slot = delay_take(delay, place);
        if (slot != NULL) {
            delay_gives_back(heap, pagemap_find(slot), slot);
        }
    }
}

static struct slot *delay_swap(struct heap *heap, struct slot *slot, size_t size)
{
    struct delay *delay = &heap->delay;
    delay->bytes += size;
    struct slot **place = &delay->random[delay_choose(delay)];
    struct slot *moved = *place;
    *place = slot;
    order_stores();
    if (moved == NULL) {
        return NULL;
    }
    place = &delay->fifo[delay->next];
    delay->next = (delay->next + 1) % DELAY_FIFO;
    struct slot *leaves = delay_take(delay, place);
    *place = moved;
    if (unlikely(delay->bytes > DELAY_BYTES)) {
        delay_shorten(heap);
    }
    return leaves;
}

static void delay_empty(struct heap *heap)
{
    struct delay *delay = &heap->delay;
    if (delay->bytes == 0) {
        return;
    }
    for (unsigned i = 0; i < PLACES; i++) {
        struct slot **place = i < DELAY_RANDOM ? &delay->random[i] : &delay->fifo[i - DELAY_RANDOM];
        struct slot *slot = delay_take(delay, place);
        if (slot != NULL) {
            delay_gives_back(heap, pagemap_find(slot), slot);
        }
    }
    check(delay_is_empty(heap));
}

static void delay_check(struct heap *heap)
{
    for (unsigned i = 0; i < PLACES; i++) {
        struct slot *slot = delay_at(heap, i);
        if (slot != NULL) {
            delay_look_at(slot, slot_block_size(pagemap_find(slot), slot));
        }
    }
}

static bool delay_is_empty(struct heap *heap)
{
    return heap->delay.bytes == 0;
}

#else

static struct slot *delay_at(struct heap *heap, unsigned index)
{
    (void)heap;
    (void)index;
    return NULL;
}

static struct slot *delay_swap(struct heap *heap, struct slot *slot, size_t size)
{
    (void)heap;
    (void)size;
    return slot;
}

static void delay_check(struct heap *heap)
{
    (void)heap;
}

static void delay_empty(struct heap *heap)
{
    (void)heap;
}

static bool delay_is_empty(struct heap *heap)
{
    (void)heap;
    return true;
}

#endif
