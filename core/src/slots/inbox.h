/* SPDX-License-Identifier: MIT
 *
 * The inbox of a slab, extent->remote: the slots that other threads freed, in one word.
 *
 * Its owner may fall asleep and never look into it. So while a slab is in its owner's lists it is *open*:
 * the owner does nothing with it but free into it, so that `left` only falls and no slot is read. If all slots
 * that are out have come into the inbox of an open slab, no thread but the owner can have anything to do
 * with it, and whoever notices may mark it *emptied* and give its memory to the kernel (thread/emptied.h), all, a part
 * or nothing. The owner closes the slab before it does anything else with it, and then finds it as new.
 *
 *     closed --slab_open: owner--> open --slab_mark_emptied: any thread--> open, emptied
 *       ^                           |                                        |
 *       +------slab_close: owner----+----------------------------------------+
 *
 * Between the mark and the end of the call to the kernel `emptied_lock` is held: the owner waits for it, and so
 * does who wants to push a slot, which is possible only if it was not empty after all, or in a program that frees
 * a slot twice.
 */
#ifndef MALLOW_INBOX_H
#define MALLOW_INBOX_H

#include "../arena/arena.h"
#include "../os/lock.h"
#include "slot.h"

/* A list of slots in one word: its head in the low 48 bits, its length in the high 16. In an inbox the lowest bits
 * are flags. */
#define LIST_HEAD_BITS 48

enum inbox_flags { INBOX_OPEN = 1, INBOX_EMPTIED = 2, INBOX_FLAGS = 3 };

ALWAYS_INLINE struct slot *list_word_head(uint64_t word)
{
    return (struct slot *)(uintptr_t)(word & (((uint64_t)1 << LIST_HEAD_BITS) - 1) &
                                      ~(uint64_t)INBOX_FLAGS);
}

ALWAYS_INLINE uint32_t list_word_length(uint64_t word)
{
    return (uint32_t)(word >> LIST_HEAD_BITS);
}

ALWAYS_INLINE uint64_t list_word(struct slot *head, uint64_t length)
{
    check((uintptr_t)head >> LIST_HEAD_BITS == 0 && length <= UINT16_MAX);
    return (uint64_t)(uintptr_t)head | length << LIST_HEAD_BITS;
}

/* Adds a list of `count` slots. Returns how many there are now; 0, and has added nothing, if no slot of the slab was
 * out. */
static uint32_t slab_push_remote(struct extent *extent, struct slot *head, struct slot *tail,
                                 uint32_t count);

/* Takes them all; NULL if there are none. The slab is closed. */
static struct slot *slab_collect_remote(struct extent *extent, uint32_t *count);

/* The first of them, which stay; NULL if there are none. For who knows that nobody collects. */
static struct slot *slab_first_remote(struct extent *extent);

static struct lock emptied_lock;

/* Opens a closed slab. Owner thread, when all is done. */
static void slab_open(struct extent *extent);

/* Closes it. Returns whether it was open. Owner thread. */
static bool slab_close_slow(struct extent *extent);
ALWAYS_INLINE bool slab_close(struct extent *extent)
{
    /* The owner alone opens, so it sees the flag. */
    return unlikely((atomic_get(&extent->remote) & INBOX_FLAGS) != 0) && slab_close_slow(extent);
}

/* Whether the slab is open and all slots that are out have come into its inbox; a moment's answer. Any thread that
 * knows that the extent is a slab of small slots. */
static bool slab_seems_emptied(struct extent *extent);

/* Marks such a slab emptied. False if it is none by now. Any thread, with emptied_lock. */
static bool slab_mark_emptied(struct extent *extent);

#endif
