/* SPDX-License-Identifier: MIT */
#include "delay.h"

#if MW_DELAY_FREE

#define PLACES (DELAY_RANDOM + DELAY_FIFO)

/* What waits is known by one word: its size in units, and its address. */
#define SIZE_SHIFT 48
#define SIZE_UNIT_LOG2 4
static_assert(ADDRESS_LIMIT <= (uintptr_t)1 << SIZE_SHIFT, "above the address there are 16 bits");
static_assert(SLOT_MAX >> SIZE_UNIT_LOG2 <= UINT16_MAX, "which hold any size");

ALWAYS_INLINE uint64_t entry_of(const struct slot *slot, size_t size)
{
    check(size % (1u << SIZE_UNIT_LOG2) == 0 && size <= SLOT_MAX);
    return (uintptr_t)slot | (uint64_t)size << (SIZE_SHIFT - SIZE_UNIT_LOG2);
}

ALWAYS_INLINE struct slot *entry_slot(uint64_t entry)
{
    return (struct slot *)(uintptr_t)(entry & (((uint64_t)1 << SIZE_SHIFT) - 1));
}

ALWAYS_INLINE size_t entry_size(uint64_t entry)
{
    return (size_t)(entry >> SIZE_SHIFT << SIZE_UNIT_LOG2);
}

static struct slot *delay_at(struct heap *heap, unsigned index)
{
    struct delay *delay = &heap->delay;
    if (index >= PLACES) {
        return NULL;
    }
    return entry_slot(index < DELAY_RANDOM ? atomic_peek(&delay->random[index])
                                           : atomic_peek(&delay->fifo[index - DELAY_RANDOM]));
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

ALWAYS_INLINE struct slot *delay_take_out(struct delay *delay, uint64_t entry)
{
    struct slot *slot = entry_slot(entry);
    size_t size = entry_size(entry);
    delay_look_at(slot, size);
    check(delay->bytes >= size && size == slot_block_size(pagemap_find(slot), slot));
    delay->bytes -= size;
    return slot;
}

/* Takes what is in a place; NULL if nothing is. */
ALWAYS_INLINE struct slot *delay_take(struct delay *delay, uint64_t *place)
{
    uint64_t entry = *place;
    if (entry == 0) {
        return NULL;
    }
    *place = 0;
    order_stores(); /* a child of fork has it in one place at most */
    return delay_take_out(delay, entry);
}

/* The oldest of the ring, which has some. */
ALWAYS_INLINE struct slot *delay_take_oldest(struct delay *delay)
{
    uint64_t *place = &delay->fifo[delay->first];
    check(delay->count > 0 && *place != 0);
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
    uint64_t *place = &delay->random[delay_choose(delay)];
    uint64_t moved = *place;
    *place = entry_of(slot, size);
    order_stores();
    if (likely(moved != 0)) {
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
        uint64_t *place = i < DELAY_RANDOM ? &delay->random[i] : &delay->fifo[i - DELAY_RANDOM];
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
