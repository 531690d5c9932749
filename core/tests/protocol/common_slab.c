/* SPDX-License-Identifier: MIT
 *
 * A common slab whose blocks are freed at once, or while others are taken, is given back by one thread
 * and no more.
 */
#include "slab_of_others.h"

/* --- First blocks --------------------------------------------------------------------------------- */

static void first_blocks(void)
{
    heaps_reset();
    extent = slab_with_slots(&heaps_of[0], 4, 0, slots);
    uint32_t count;
    slots[0] = common_create_first(extent, &heaps_of[0], 2, &count);
    PROPERTY(slots[0] != NULL && count == 2, "no common slab");
    slots[1] = slot_next(slots[0]);
    slab_watch(extent);
}

static void take_and_free(void)
{
    uint32_t count;
    struct slot *slot = common_take(
        heaps_of[0].arena, COMMON_FIRST,
        &(struct common_request){class_of(SLOT_SIZE), class_of(SLOT_SIZE), 1, 1}, &count);
    if (slot != NULL) {
        program_frees(&heaps_of[0], extent, slot);
    }
    program_uses_free_pages(&heaps_of[0]);
}

static void collect(void)
{
    if (common_collect(extent)) {
        heap_put_pages(&heaps_of[0], extent);
    }
    program_uses_free_pages(&heaps_of[0]);
}

static const struct scenario free_both_at_once = {"common: free, free",
                                                  first_blocks,
                                                  {NULL, free_first, free_second},
                                                  slab_is_empty_and_released};
static const struct scenario collect_while_freed = {"common: collect, free and free",
                                                    first_blocks,
                                                    {collect, free_both},
                                                    slab_is_empty_and_released};
static const struct scenario take_while_freed = {"common: take, free and free",
                                                 first_blocks,
                                                 {take_and_free, free_both},
                                                 slab_is_empty_and_released};
static const struct scenario take_among_three = {"common: take, free, free",
                                                 first_blocks,
                                                 {take_and_free, free_first, free_second},
                                                 slab_is_empty_and_released};

TEST(a_common_slab_is_released_once)
{
    explore(&free_both_at_once);
    explore(&collect_while_freed);
}

TEST(a_common_slab_is_released_once_while_blocks_are_taken)
{
    explore(&take_while_freed);
}

TEST(a_common_slab_is_released_once_among_three)
{
    explore_large(&take_among_three);
}

/* --- Mistakes that must be found ---------------------------------------------------------------------- */

/* common_pushed that looks how many blocks are out before it pushes. */
static void look_before_push(void)
{
    for (unsigned i = 0; i < 2; i++) {
        uint32_t out = atomic_get_ordered(&extent->used_at_last);
        memset(slots[i], 1, SLOT_SIZE);
        uint32_t total = slab_push_remote(extent, slots[i], slots[i], 1);
        if (total >= out && common_collect(extent)) {
            heap_put_pages(&heaps_of[1], extent);
        }
    }
}

static const struct scenario look_is_early = {"mistake: look before push",
                                              first_blocks,
                                              {collect, look_before_push},
                                              slab_is_empty_and_released};

TEST(mistakes_with_common_slabs_are_found)
{
    explore_finds(&look_is_early, MEMORY_ORDERED, MISTAKE_NONE, "lists a slab that is gone");
    explore_finds(&collect_while_freed, MEMORY_C11, MISTAKE_NO_SEQ_CST,
                  "lists a slab that is gone");
    explore_finds(&collect_while_freed, MEMORY_C11, MISTAKE_NO_RELEASE, "race");
}
