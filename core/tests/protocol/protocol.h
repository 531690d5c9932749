/* SPDX-License-Identifier: MIT
 *
 * A protocol test takes the whole allocator in, so that its threads can call the static functions of
 * one module. They call them with heaps of their own: the explorer's threads are none of the system's.
 */
#ifndef TEST_PROTOCOL_H
#define TEST_PROTOCOL_H

#define MW_EXPORT_LIBC 0
#ifndef MW_CHECK_LEVEL
#define MW_CHECK_LEVEL 2
#endif
#define MW_LOCK_ORDER 0 /* all are one thread of the system */
#include "../../src/mallow.c"

#include "../test.h"
#include "explorer.h"

enum { SLOT_SIZE = 256 };

static struct heap heaps_of[EXPLORER_THREADS];

/* Heaps without anything. */
static inline void heaps_reset(void)
{
    if (heap_own == NULL) {
        mw_free(mw_malloc(1)); /* the start of the process is not explored */
    }
    memset(heaps_of, 0, sizeof heaps_of);
    for (unsigned i = 0; i < EXPLORER_THREADS; i++) {
        heap_init(&heaps_of[i], heap_own->arena);
        heaps_of[i].stack_limit = SIZE_MAX / 2;
        heaps_of[i].slab_pages_due =
            SIZE_MAX / 2; /* what becomes empty lies in a stack, to be counted */
    }
}

/* A slab of a page, of `capacity` slots, of which `out` are with the program; `owner` owns it. */
static inline struct extent *slab_with_slots(struct heap *owner, uint32_t capacity, uint32_t out,
                                             struct slot **slots)
{
    struct extent *extent = arena_alloc(owner->arena, 1, os_page_size);
    PROPERTY(extent != NULL, "out of memory");
    slab_create(extent, class_of(SLOT_SIZE), owner);
    extent->slab.capacity = capacity;
    struct slot *slot = out != 0 ? slab_carve(extent, out) : NULL;
    for (uint32_t i = 0; i < out; i++, slot = slot_next(slot)) {
        slots[i] = slot;
    }
    return extent;
}

static inline void slab_watch(struct extent *extent)
{
    explorer_watch(&extent->owner, "owner");
    explorer_watch(&extent->remote, "remote");
    explorer_watch(&extent->used_at_last, "used_at_last");
}

/* The program writes into a block and frees it, in a thread that does not own its slab. */
static inline void program_frees(struct heap *heap, struct extent *extent, struct slot *slot)
{
    memset(slot, 1, SLOT_SIZE);
    heap_send(heap, extent, slot, slot, 1);
}

/* If pages have come free with this heap, the program may write to them at once. */
static inline void program_uses_free_pages(struct heap *heap)
{
    struct extent *extent = stack_pop(heap, page_class_of(1));
    if (extent != NULL) {
        memset((void *)extent->start, 2, os_page_size);
        heap_put_pages(heap, extent);
    }
}

/* The slab has become empty, which exactly one of the threads has noticed: the pages lie in its stack.
 * Takes them out and gives them back to the arena. */
static inline void slab_must_be_released_once(struct extent *extent)
{
    unsigned found = 0;
    for (unsigned i = 0; i < EXPLORER_THREADS; i++) {
        struct extent *pages;
        while ((pages = stack_pop(&heaps_of[i], page_class_of(1))) != NULL) {
            PROPERTY(pages == extent, "a stack holds pages that nobody put there");
            found++;
        }
    }
    PROPERTY(found != 0, "the empty slab is lost: owner %p, %#llx slots pushed",
             (void *)atomic_get(&extent->owner), (unsigned long long)atomic_get(&extent->remote));
    PROPERTY(found == 1, "the empty slab was released %u times", found);
    PROPERTY(atomic_get(&extent->owner) == OWNER_NOT_A_SLAB, "free pages have an owner");
    PROPERTY(atomic_get(&extent->remote) == 0, "slots were pushed to free pages");
    PROPERTY(atomic_get(&slab_pool_of(extent)->count[class_of(SLOT_SIZE)]) == 0,
             "the pool counts a slab that is gone");
    arena_free(arena_of(extent), extent);
}

#endif
