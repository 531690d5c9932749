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

#define CHOICE_BITS 6u
#define CHOICES_END ((uint64_t)1 << (10 * CHOICE_BITS))
static_assert(1u << CHOICE_BITS == DELAY_RANDOM, "a choice is a place");

/* One of the places of the random stage; each draw of random bits is good for ten. */
ALWAYS_INLINE uint32_t delay_choose(struct delay *delay)
{
    uint64_t choices = delay->choices;
    if (unlikely(choices <= 1)) {
        choices = (random_bits() & (CHOICES_END - 1)) | CHOICES_END;
    }
    delay->choices = choices >> CHOICE_BITS;
    return choices % DELAY_RANDOM;
}

/* Nobody wrote to the slot while it waited. It is looked at now, as it may not be used again before
 * the program ends. */
ALWAYS_INLINE void delay_look_at(const struct slot *slot, size_t size)
{
    bool is_whole =
        slot->link == FILL_FREE_WORD && slot_fill_is_whole(slot, size, strength.fill_whole);
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

/* The oldest of the ring, which has some. */
static struct slot *delay_take_oldest(struct delay *delay)
{
    struct slot **place = &delay->fifo[delay->first];
    check(delay->count > 0 && *place != NULL);
    delay->first = (delay->first + 1) % DELAY_FIFO;
    delay->count--;
    return delay_take(delay, place);
}

/* Any of the random stage; NULL if there is none. */
static struct slot *delay_take_any(struct delay *delay)
{
    uint32_t at = delay_choose(delay);
    for (unsigned i = 0; i < DELAY_RANDOM; i++) {
        struct slot *slot = delay_take(delay, &delay->random[(at + i) % DELAY_RANDOM]);
        if (slot != NULL) {
            return slot;
        }
    }
    return NULL;
}

static struct slot *delay_take_next(struct delay *delay)
{
    return delay->count != 0 ? delay_take_oldest(delay) : delay_take_any(delay);
}

/* More than one leaves: all but the last are given back at once. */
static NOINLINE struct slot *delay_shorten(struct heap *heap)
{
    struct delay *delay = &heap->delay;
    struct slot *slot = delay_take_next(delay);
    while (delay->bytes > strength.delay_bytes) {
        delay_gives_back(heap, pagemap_find(slot), slot);
        slot = delay_take_next(delay);
    }
    return slot;
}

static struct slot *delay_swap(struct heap *heap, struct slot *slot, size_t size)
{
    struct delay *delay = &heap->delay;
    if (unlikely(size > strength.delay_bytes)) {
        return slot; /* nothing waits */
    }
    delay->bytes += size;
    struct slot **place = &delay->random[delay_choose(delay)];
    struct slot *moved = *place;
    *place = slot;
    order_stores();
    if (moved != NULL) {
        struct slot *leaves = delay->count == DELAY_FIFO ? delay_take_oldest(delay) : NULL;
        delay->fifo[(delay->first + delay->count) % DELAY_FIFO] = moved;
        delay->count++;
        if (leaves != NULL && likely(delay->bytes <= strength.delay_bytes)) {
            return leaves;
        }
        if (leaves != NULL) {
            delay_gives_back(heap, pagemap_find(leaves), leaves);
        }
    }
    return unlikely(delay->bytes > strength.delay_bytes) ? delay_shorten(heap) : NULL;
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
    delay->count = 0;
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
