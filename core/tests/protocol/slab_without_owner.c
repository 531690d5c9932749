/* SPDX-License-Identifier: MIT
 *
 * A slab without an owner that becomes empty is noticed, by one thread and no more; slots that several
 * threads free at once all arrive.
 */
/* What an assert reads is a step of its thread: with them there are some fifteen times as many orders. */
#define MW_CHECK_LEVEL 0
#include "slab_of_others.h"

/* --- The owner gives a full slab up while others free its slots ----------------------------------- */

static void full_slab(void)
{
    heaps_reset();
    extent = slab_with_slots(&heaps_of[0], 2, 2, slots);
    slab_watch(extent);
}

static void abandon(void)
{
    heap_abandon_slab(&heaps_of[0], extent);
    program_uses_free_pages(&heaps_of[0]);
}

static const struct scenario abandon_and_free_two = {
    "abandon, free and free", full_slab, {abandon, free_both}, slab_is_empty_and_released};

static const struct scenario abandon_among_three = {"abandon, free, free",
                                                    full_slab,
                                                    {abandon, free_first, free_second},
                                                    slab_is_empty_and_released};

TEST(an_abandoned_slab_is_not_lost)
{
    explore(&abandon_and_free_two);
}

TEST(an_abandoned_slab_is_not_lost_among_three)
{
    explore_large(&abandon_among_three);
}

/* --- A heap takes a slab from the pool while its last slots are freed ------------------------------- */

static void shared_slab(void)
{
    heaps_reset();
    extent = slab_with_slots(&heaps_of[0], 4, 2, slots);
    heap_abandon_slab(&heaps_of[0], extent);
    PROPERTY(extent->slab.place == SLAB_SHARED, "the slab is not shared");
    slab_watch(extent);
}

static void take_shared(void)
{
    struct extent *taken = slab_take_shared(heaps_of[0].arena, class_of(SLOT_SIZE), &heaps_of[0]);
    if (taken != NULL) {
        PROPERTY(taken == extent && taken->slab.place == SLAB_NONE, "not the slab that was shared");
        heap_abandon_slab(&heaps_of[0], taken);
    }
    program_uses_free_pages(&heaps_of[0]);
}

static const struct scenario take_shared_and_free_two = {"take shared, free and free",
                                                         shared_slab,
                                                         {take_shared, free_both},
                                                         slab_is_empty_and_released};

static const struct scenario take_shared_among_three = {"take shared, free, free",
                                                        shared_slab,
                                                        {take_shared, free_first, free_second},
                                                        slab_is_empty_and_released};

TEST(a_shared_slab_is_not_lost)
{
    explore(&take_shared_and_free_two);
}

TEST(a_shared_slab_is_not_lost_among_three)
{
    explore_large(&take_shared_among_three);
}

/* --- The descriptor becomes another slab while a free is under way ---------------------------------- */

static void slab_of_one(void)
{
    heaps_reset();
    extent = slab_with_slots(&heaps_of[0], 1, 1, slots);
    slab_watch(extent);
    /* A thread that has pushed the last slot estimates by the capacity whether to look after a slab that
     * may be another one by now; it takes the slab before it acts. */
    explorer_allow_race(&extent->slab.capacity, sizeof extent->slab.capacity);
}

static void free_only(void)
{
    program_frees(&heaps_of[1], extent, slots[0]);
    program_uses_free_pages(&heaps_of[1]);
}

static void reuse(void)
{
    heap_abandon_slab(&heaps_of[0], extent);
    struct extent *pages = stack_pop(&heaps_of[0], page_class_of(1));
    if (pages == NULL) {
        return; /* the other thread releases it */
    }
    slab_create(pages, class_of(SLOT_SIZE), &heaps_of[0]);
    pages->slab.capacity = 2;
    struct slot *slot = slab_carve(pages, 1);
    heap_abandon_slab(&heaps_of[0], pages);
    program_frees(&heaps_of[0], pages, slot);
}

static const struct scenario reuse_while_freed = {
    "release, make again, free", slab_of_one, {reuse, free_only}, slab_is_empty_and_released};

TEST(a_slab_that_is_made_again_is_not_lost)
{
    explore(&reuse_while_freed);
}

/* --- The owner collects what others push ------------------------------------------------------------ */

static void owned_slab(void)
{
    heaps_reset();
    extent = slab_with_slots(&heaps_of[0], 4, 4, slots);
    slab_watch(extent);
}

static void collect(void)
{
    slab_absorb_remote(extent);
    for (struct slot *slot = extent->slab.local; slot != NULL; slot = slot_next(slot)) {
        memset(slot + 1, 3, SLOT_SIZE - sizeof *slot);
    }
    slab_absorb_remote(extent);
}

static void push_two_and_one(void)
{
    slot_set_next(slots[0], slots[1]);
    heap_send(&heaps_of[1], extent, slots[0], slots[1], 2);
    program_frees(&heaps_of[1], extent, slots[2]);
}

static void push_one(void)
{
    program_frees(&heaps_of[2], extent, slots[3]);
}

static void all_slots_are_back(void)
{
    slab_absorb_remote(extent);
    unsigned seen = 0;
    for (struct slot *slot = extent->slab.local; slot != NULL; slot = slot_next(slot)) {
        unsigned bit = 1u << slab_index(extent, slot);
        PROPERTY((seen & bit) == 0, "slot %u arrived twice", slab_index(extent, slot));
        seen |= bit;
    }
    PROPERTY(seen == 0xf, "slots %#x arrived", seen);
    PROPERTY(slab_used(extent) == 0, "%u slots are counted as used", slab_used(extent));
    slab_retire(extent);
    arena_free(arena_of(extent), extent);
}

static const struct scenario collect_and_push = {
    "collect, push, push", owned_slab, {collect, push_two_and_one, push_one}, all_slots_are_back};

TEST(slots_freed_at_once_all_arrive)
{
    explore_wide(&collect_and_push);
}

/* --- Mistakes that must be found ---------------------------------------------------------------------- */

/* heap_abandon_slab and slab_disown with the last two steps in the wrong order: first it looks at what was
 * pushed, then it clears the owner. */
static void abandon_reversed(void)
{
    slab_absorb_remote(extent);
    uint32_t used = slab_used(extent);
    extent->slab.left = used;
    extent->slab.bias = 0;
    if (used == 0) {
        heap_release_slab(&heaps_of[0], extent);
        return;
    }
    atomic_set(&extent->used_at_last, used);
    bool is_pushed = atomic_get_ordered(&extent->remote) != 0;
    atomic_set_ordered(&extent->owner, NULL);
    if (is_pushed && slab_try_own(extent, &heaps_of[0])) {
        heap_abandon_slab(&heaps_of[0], extent);
    }
}

static const struct scenario reversed = {"mistake: disown reversed",
                                         full_slab,
                                         {abandon_reversed, free_both},
                                         slab_is_empty_and_released};

/* heap_send without the test-and-set of slab_try_own: it looks, and then stores. */
static void free_without_owning(void)
{
    memset(slots[0], 1, SLOT_SIZE);
    slab_push_remote(extent, slots[0], slots[0], 1);
    if (atomic_get_ordered(&extent->owner) == NULL) {
        atomic_set_ordered(&extent->owner, &heaps_of[1]);
        heap_abandon_slab(&heaps_of[1], extent);
    }
}

static void slab_without_owner(void)
{
    heaps_reset();
    extent = slab_with_slots(&heaps_of[0], 2, 2, slots);
    heap_abandon_slab(&heaps_of[0], extent);
    slab_watch(extent);
}

static const struct scenario owner_is_stored = {"mistake: owner stored",
                                                slab_without_owner,
                                                {free_without_owning, NULL, free_second},
                                                slab_is_empty_and_released};

TEST(mistakes_with_owners_are_found)
{
    explore_finds(&reversed, MEMORY_ORDERED, MISTAKE_NONE, "the empty slab is lost");
    explore_finds(&owner_is_stored, MEMORY_ORDERED, MISTAKE_NONE, "race");
    explore_finds(&abandon_and_free_two, MEMORY_X86, MISTAKE_NO_SEQ_CST, "the empty slab is lost");
    explore_finds(&abandon_and_free_two, MEMORY_C11, MISTAKE_NO_SEQ_CST, "the empty slab is lost");
    explore_finds(&collect_and_push, MEMORY_ORDERED, MISTAKE_SPLIT_SWAP, "arrived");
    explore_finds(&collect_and_push, MEMORY_C11, MISTAKE_NO_ACQUIRE, "race");
    explore_finds(&collect_and_push, MEMORY_C11, MISTAKE_NO_RELEASE, "race");
}
