/* SPDX-License-Identifier: MIT
 *
 * A slab in its owner's lists is emptied by a third thread only if no slot of it is out, and its owner then
 * finds it as new, whatever it was about to do.
 */
/* What an assert reads is a step of its thread: with them there are some fifteen times as many orders. */
#define MW_CHECK_LEVEL 0
#include "slab_of_others.h"

enum { CAPACITY = 16, OUT = 3 };

static bool was_emptied;
static bool out[OUT]; /* with the program */

static struct heap *owner(void)
{
    return &heaps_of[0];
}

/* Ready, with so many slots out, all of which were made. */
static void open_slab_of(uint32_t count)
{
    heaps_reset();
    was_emptied = false;
    atomic_set(&emptied.may_be_there, false);
    extent = slab_with_slots(owner(), CAPACITY, count, slots);
    for (uint32_t i = 0; i < OUT; i++) {
        out[i] = i < count;
    }
    heap_place(owner(), extent, true);
    PROPERTY(extent->slab.place == SLAB_READY, "the slab is not ready");
    slab_watch(extent);
    /* What the owner wrote into a slot that it freed may come behind the kernel's zeros: nobody reads it, see
     * slab_close. */
    explorer_allow_race(slots[0], SLOT_SIZE);
}

static void open_slab_of_three(void)
{
    open_slab_of(3);
}

static void open_slab_of_two(void)
{
    open_slab_of(2);
}

static void owner_frees(void)
{
    out[0] = false;
    memset(slots[0], 1, SLOT_SIZE);
    heap_take_back(owner(), extent, slots[0]);
}

static void other_frees(uint32_t i)
{
    out[i] = false;
    program_frees(&heaps_of[1], extent, slots[i]);
}

static void others_free(void)
{
    other_frees(1);
    other_frees(2);
}

static void both_are_freed(void)
{
    other_frees(0);
    other_frees(1);
}

/* What the walk of thread/emptied.c does with each slab. */
static void empty(void)
{
    lock_take(&emptied_lock);
    if (slab_seems_emptied(extent) && slab_mark_emptied(extent)) {
        was_emptied = true;
        memset((void *)extent->start, 0, os_page_size); /* the kernel's */
    }
    lock_release(&emptied_lock);
}

static void is_consistent(void)
{
    for (uint32_t i = 0; i < OUT; i++) {
        PROPERTY(!was_emptied || !out[i], "slot %u was out when the slab was emptied", i);
    }
    bool is_marked = (atomic_get(&extent->remote) & INBOX_EMPTIED) != 0;
    slab_absorb_remote(extent);
    PROPERTY(!is_marked || slab_used(extent) == 0, "%u slots are out of an emptied slab",
             slab_used(extent));
    uint32_t still_out = 0;
    for (uint32_t i = 0; i < OUT; i++) {
        still_out += out[i];
    }
    PROPERTY(slab_used(extent) == still_out, "%u slots are out, %u counted", still_out,
             slab_used(extent));
    uint32_t free = 0;
    for (struct slot *at = extent->slab.local; at != NULL; at = slot_next(at)) {
        PROPERTY(slab_has_slot_at(extent, at) && ++free <= CAPACITY, "the free list is damaged");
    }
    PROPERTY(free == extent->slab.carved - slab_used(extent), "%u free slots are lost",
             extent->slab.carved - slab_used(extent) - free);
    for (uint32_t i = 0; i < OUT; i++) {
        if (out[i]) {
            slot_set_next(slots[i], extent->slab.local);
            extent->slab.local = slots[i];
        }
    }
    if (extent->slab.place == SLAB_READY) {
        heap_unlist(owner(), extent);
    }
    owner()->bins[class_of(SLOT_SIZE)].current = NULL;
    extent->slab.place = SLAB_NONE;
    extent->slab.left = 0;
    extent->slab.bias = 0;
    slab_retire(extent);
    arena_free(arena_of(extent), extent);
}

static const struct scenario frees_and_empty = {"owner frees, others free, empty",
                                                open_slab_of_three,
                                                {owner_frees, others_free, empty},
                                                is_consistent};

TEST(a_slab_is_emptied_when_all_is_freed)
{
    explore(&frees_and_empty);
}

/* --- The owner goes on with the slab --------------------------------------------------------------- */

/* malloc: writes into a slot of the slab if it has one, else it would make new ones. */
static void owner_allocates(void)
{
    struct bin *bin = &owner()->bins[class_of(SLOT_SIZE)];
    struct extent *taken = heap_take_ready(owner(), bin);
    PROPERTY(taken == extent, "the ready slab is not there");
    struct slot *slot = taken->slab.local;
    if (slot != NULL) {
        taken->slab.local = slot_next(slot);
        taken->slab.left++;
        memset(slot, 3, SLOT_SIZE);
        for (uint32_t i = 0; i < OUT; i++) {
            if (slots[i] == slot) {
                out[i] = true;
            }
        }
        PROPERTY(((volatile char *)slot)[SLOT_SIZE - 1] == 3, "a block in use was cleared");
    }
}

static const struct scenario allocate_and_empty = {"owner allocates, both freed, empty",
                                                   open_slab_of_two,
                                                   {owner_allocates, both_are_freed, empty},
                                                   is_consistent};

TEST(a_slab_that_its_owner_takes_is_not_emptied)
{
    explore(&allocate_and_empty);
}

/* --- The owner looks whether it is empty ----------------------------------------------------------- */

static void owner_looks(void)
{
    heap_look_at_oldest(owner(), &owner()->bins[class_of(SLOT_SIZE)].ready);
}

static void is_released_or_consistent(void)
{
    if (extent_is_slab(extent)) {
        is_consistent();
    } else {
        slab_must_be_released_once(extent);
    }
}

static const struct scenario look_and_empty = {"owner looks, both freed, empty",
                                               open_slab_of_two,
                                               {owner_looks, both_are_freed, empty},
                                               is_released_or_consistent};

TEST(a_slab_is_emptied_or_released)
{
    explore(&look_and_empty);
}

/* --- Mistakes that must be found ------------------------------------------------------------------- */

/* heap_take_ready without slab_close: the flags go with the next exchange, unseen. */
static void owner_allocates_without_close(void)
{
    struct slot *slot = extent->slab.local;
    uint64_t inbox = atomic_swap(&extent->remote, 0);
    if (list_word_length(inbox) != 0) {
        slot = list_word_head(inbox);
        memset(slot, 3, SLOT_SIZE);
        PROPERTY(((volatile char *)slot)[SLOT_SIZE - 1] == 3, "a block in use was cleared");
    }
}

static const struct scenario never_closed = {"mistake: not closed",
                                             open_slab_of_two,
                                             {owner_allocates_without_close, both_are_freed, empty},
                                             is_consistent};

/* slab_mark_emptied without the mark: looks, and then clears. */
static void empty_without_mark(void)
{
    if (slab_seems_emptied(extent)) {
        memset((void *)extent->start, 0, os_page_size);
    }
}

static const struct scenario never_marked = {"mistake: not marked",
                                             open_slab_of_two,
                                             {owner_allocates, both_are_freed, empty_without_mark},
                                             is_consistent};

TEST(mistakes_with_emptied_slabs_are_found)
{
    explore_finds(&never_closed, MEMORY_ORDERED, MISTAKE_NONE, "slots are out");
    explore_finds(&never_marked, MEMORY_ORDERED, MISTAKE_NONE, "free slots are lost");
    explore_finds(&allocate_and_empty, MEMORY_ORDERED, MISTAKE_SPLIT_SWAP, "slots are out");
    explore_finds(&allocate_and_empty, MEMORY_C11, MISTAKE_NO_ACQUIRE, "race");
    explore_finds(&allocate_and_empty, MEMORY_C11, MISTAKE_NO_RELEASE, "race");
}
