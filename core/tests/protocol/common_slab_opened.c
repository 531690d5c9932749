/* SPDX-License-Identifier: MIT
 *
 * A shared slab that becomes common while its blocks are freed is not lost.
 */
#include "slab_of_others.h"

static void sparse_slab(void)
{
    heaps_reset();
    extent = slab_with_slots(&heaps_of[0], 8, 2, slots);
    heap_abandon_slab(&heaps_of[0], extent);
    PROPERTY(extent->slab.place == SLAB_SHARED, "the slab is not shared");
    slab_watch(extent);
}

static void open_sparse(void)
{
    if (heap_open_sparse(&heaps_of[0], class_of(SLOT_SIZE), 2)) {
        uint32_t count;
        struct common_request request = {class_of(2 * SLOT_SIZE), class_of(SLOT_SIZE), 2, 1};
        struct slot *block = common_take(heaps_of[0].arena, COMMON_HOLES, &request, &count);
        if (block != NULL) {
            memset(block, 4, 2 * SLOT_SIZE);
            heap_send(&heaps_of[0], extent, block, block, 1);
        }
    }
    program_uses_free_pages(&heaps_of[0]);
}

static const struct scenario open_while_freed = {"common: open, free and free",
                                                 sparse_slab,
                                                 {open_sparse, free_both},
                                                 slab_is_empty_and_released};

TEST(a_slab_that_becomes_common_is_not_lost)
{
    explore_large(&open_while_freed);
}

/* --- Mistakes that must be found ---------------------------------------------------------------------- */

/* heap_open_sparse without the last look at what was freed before others could see the slab is common. */
static void open_without_look(void)
{
    struct extent *taken =
        common_take_sparse(heaps_of[0].arena, class_of(SLOT_SIZE), 2, &heaps_of[0]);
    if (taken == NULL) {
        return;
    }
    slab_absorb_remote(taken);
    if (slab_used(taken) == 0) {
        heap_release_slab(&heaps_of[0], taken);
        return;
    }
    PROPERTY(common_create(taken, COMMON_HOLES, &heaps_of[0]), "no memory for the table");
}

static void slab_is_not_lost(void)
{
    slab_must_be_released_once(extent);
}

static const struct scenario no_look = {
    "mistake: no look after create", sparse_slab, {open_without_look, free_both}, slab_is_not_lost};

TEST(a_missing_look_is_found)
{
    explore_finds(&no_look, MEMORY_ORDERED, MISTAKE_NONE, "the empty slab is lost");
}
