/* SPDX-License-Identifier: MIT
 *
 * What several threads put into a tray, or into a batch, while others take what is there, is in one place in the
 * end: in the magazine or stack of one of them, in the depot, or still in the tray or batch.
 */
#include "slab_of_others.h"

enum { SIZE = 4 * KiB, SLOTS = 3, BLOCK_PAGES = 9 };

static struct extent *blocks[SLOTS];

/* --- Slots ------------------------------------------------------------------------------------ */

static unsigned class_of_slots(void)
{
    return class_of(SIZE);
}

/* A slab of a depot whose slots are all with the program, and a magazine that may hold two. */
static void slots_that_are_out(void)
{
    heaps_reset();
    struct heap *taker = &heaps_of[0];
    extent = arena_alloc(taker->arena, SLOTS, os_page_size);
    PROPERTY(extent != NULL, "out of memory");
    depot_add(extent, class_of_slots());
    extent->slab.capacity = SLOTS;
    uint32_t count;
    struct slot *list = depot_take(taker->arena, class_of_slots(), SLOTS, &count);
    PROPERTY(list != NULL && count == SLOTS, "%u slots in the depot", count);
    for (unsigned i = 0; i < SLOTS; i++, list = slot_next(list)) {
        slots[i] = list;
    }
    *heap_limit(taker, class_of_slots()) = 2;
    taker->magazine_bytes = 2 * class_size(class_of_slots());
    explorer_watch(&trays[extent_arena(extent)].slots, "tray");
}

static void free_slot_number(unsigned heap, unsigned number)
{
    memset(slots[number], 1, SIZE);
    heap_free_to_tray(&heaps_of[heap], extent, slots[number]);
}

static void free_two(void)
{
    free_slot_number(1, 0);
    free_slot_number(1, 1);
}

static void free_third(void)
{
    free_slot_number(2, 2);
}

/* The program gets what was taken, writes to it, and frees it. */
static void take(void)
{
    struct heap *heap = &heaps_of[0];
    uint32_t count;
    struct slot *list = magazine_take_tray(heap, heap->arena, class_of_slots(), 2, &count);
    while (list != NULL) {
        struct slot *slot = list;
        list = slot_next(slot);
        memset(slot, 2, SIZE);
        slot_push(&heap->free[class_of_slots()], slot);
        heap->rooms[class_of_slots()]--;
    }
}

static void empty(void)
{
    trays_empty();
}

static unsigned number_of(struct slot *slot)
{
    for (unsigned i = 0; i < SLOTS; i++) {
        if (slots[i] == slot) {
            return i;
        }
    }
    explorer_fail("%p is no slot that was freed", (void *)slot);
}

static unsigned with_list(unsigned seen, struct slot *list)
{
    for (; list != NULL; list = slot_next(list)) {
        unsigned bit = 1u << number_of(list);
        PROPERTY((seen & bit) == 0, "slot %u arrived twice", number_of(list));
        seen |= bit;
    }
    return seen;
}

static unsigned with_batches_locked(unsigned seen)
{
    struct slab_pool *pool = slab_pool_of(extent);
    uint8_t number = atomic_get(batch_first_of(pool, class_of_slots()));
    for (; number != 0; number = batch_after(pool, number)) {
        seen = with_list(seen, list_word_head(atomic_get(batch_at(pool, number))));
    }
    return seen;
}

static void all_slots_are_somewhere(void)
{
    struct heap *heap = &heaps_of[0];
    struct slab_pool *pool = slab_pool_at(heap->arena);
    lock_take(&pool->lock);
    unsigned in_batches = with_batches_locked(0);
    lock_release(&pool->lock);
    lock_take(&tray_lock);
    struct slot *in_tray = tray_take_slots(heap->arena);
    lock_release(&tray_lock);
    unsigned seen = with_list(with_list(in_batches, heap->free[class_of_slots()]), in_tray);
    bool is_released = atomic_get(&extent->owner) != OWNER_DEPOT;
    if (is_released) {
        PROPERTY(seen == 0, "slots %#x of a slab that is gone", seen);
        return; /* housekeeping gave its pages back */
    }
    seen = with_list(seen, extent->slab.local);
    PROPERTY(seen == 7, "slots %#x arrived", seen);
    struct slot *lists[] = {in_tray, depot_take_batch(heap->arena), heap->free[class_of_slots()]};
    heap->free[class_of_slots()] = NULL;
    struct extent *released = NULL;
    for (unsigned i = 0; i < array_count(lists); i++) {
        struct extent *empty = depot_put(lists[i]);
        released = empty != NULL ? empty : released;
    }
    arena_free_chain(released != NULL ? released : stack_pop(heap, page_class_of(SLOTS)));
}

static const struct scenario put_and_take = {"take, free two, free third",
                                             slots_that_are_out,
                                             {take, free_two, free_third},
                                             all_slots_are_somewhere};
static const struct scenario put_and_empty = {"empty, free two, free third",
                                              slots_that_are_out,
                                              {empty, free_two, free_third},
                                              all_slots_are_somewhere};

/* All slots lie in the tray, and a thread lacks some of another class. */
static void slots_in_the_tray(void)
{
    slots_that_are_out();
    free_two();
    free_third();
}

static void take_other_class(void)
{
    uint32_t count;
    struct heap *heap = &heaps_of[0];
    magazine_take_tray(heap, heap->arena, class_of(2 * SIZE), 2, &count);
}

/* What fork does before it looks away: with its lock, what was freed is in a place that the child finds. */
static void fork_finds(unsigned freed)
{
    struct heap *heap = &heaps_of[0];
    lock_take(&tray_lock);
    unsigned seen = with_list(0, heap->free[class_of_slots()]);
    seen = with_list(seen, tray_first_slot(heap->arena));
    lock_take(&slab_pool_of(extent)->lock);
    seen = with_batches_locked(with_list(seen, extent->slab.local));
    lock_release(&slab_pool_of(extent)->lock);
    PROPERTY(seen == freed, "slots %#x are in a place that fork finds", seen);
    lock_release(&tray_lock);
}

static void fork_finds_slots(void)
{
    fork_finds(7);
}

static const struct scenario take_and_fork = {
    "take, fork", slots_in_the_tray, {take_other_class, fork_finds_slots}, all_slots_are_somewhere};

TEST(slots_of_a_tray_are_in_one_place)
{
    explore(&put_and_take);
    explore(&put_and_empty);
    explore(&take_and_fork);
}

/* --- Batches ---------------------------------------------------------------------------------- */

static void give_batch(void)
{
    memset(slots[0], 1, SIZE);
    memset(slots[1], 1, SIZE);
    slot_set_next(slots[0], slots[1]);
    slot_set_next(slots[1], NULL);
    PROPERTY(depot_put_batch(heaps_of[1].arena, class_of_slots(), slots[0], 2),
             "no room for a batch");
}

/* The program gets one slot after the other, writes to it, and frees it. */
static void take_twice(void)
{
    struct heap *heap = &heaps_of[0];
    for (unsigned i = 0; i < 2; i++) {
        uint32_t count;
        struct slot *slot = depot_take(heap->arena, class_of_slots(), 1, &count);
        if (slot != NULL) {
            memset(slot, 2, SIZE);
            slot_push(&heap->free[class_of_slots()], slot);
            heap->rooms[class_of_slots()]--;
        }
    }
}

static void third_is_in_the_tray(void)
{
    slots_that_are_out();
    free_third();
}

static void all_are_freed(void)
{
    third_is_in_the_tray();
    give_batch();
}

/* The third is the program's, so the slab does not become empty. */
static void two_are_in_a_batch(void)
{
    slots_that_are_out();
    give_batch();
}

static void fork_finds_two(void)
{
    fork_finds(3);
}

static void with_the_third_all_are_somewhere(void)
{
    free_third();
    all_slots_are_somewhere();
}

static const struct scenario give_and_take = {"take twice, give a batch",
                                              third_is_in_the_tray,
                                              {take_twice, give_batch},
                                              all_slots_are_somewhere};
static const struct scenario give_and_empty = {
    "empty, give a batch", third_is_in_the_tray, {empty, give_batch}, all_slots_are_somewhere};
static const struct scenario take_and_empty = {
    "take twice, empty, of a batch", all_are_freed, {take_twice, empty}, all_slots_are_somewhere};
static const struct scenario empty_and_fork = {"empty, fork, of a batch",
                                               two_are_in_a_batch,
                                               {empty, fork_finds_two},
                                               with_the_third_all_are_somewhere};

TEST(slots_of_a_batch_are_in_one_place)
{
    explore(&give_and_take);
    explore(&give_and_empty);
    explore(&take_and_empty);
    explore(&empty_and_fork);
}

/* --- Blocks of pages -------------------------------------------------------------------------- */

static size_t active_at_first;

static void blocks_that_are_out(void)
{
    heaps_reset();
    active_at_first = atomic_get(&heaps_of[0].arena->active_pages);
    for (unsigned i = 0; i < SLOTS; i++) {
        blocks[i] = arena_alloc(heaps_of[0].arena, BLOCK_PAGES, os_page_size);
        PROPERTY(blocks[i] != NULL, "out of memory");
    }
    explorer_watch(&trays[blocks[0]->arena].pages, "tray");
}

static void free_block_number(unsigned heap, unsigned number)
{
    memset((void *)blocks[number]->start, 1, os_page_size);
    PROPERTY(stack_hand_on(&heaps_of[heap], blocks[number]), "a block does not go to a tray");
}

static void free_two_blocks(void)
{
    free_block_number(1, 0);
    free_block_number(1, 1);
}

static void free_third_block(void)
{
    free_block_number(2, 2);
}

static void take_block(void)
{
    struct heap *heap = &heaps_of[0];
    if (stack_take_tray(heap)) {
        struct extent *block = stack_pop(heap, page_class_of(BLOCK_PAGES));
        PROPERTY(block != NULL, "what was taken is in no stack");
        memset((void *)block->start, 2, os_page_size);
        heap_put_pages(heap, block);
    }
}

static void all_blocks_are_somewhere(void)
{
    struct heap *heap = &heaps_of[0];
    size_t pages = atomic_get(&heap->stack_pages);
    lock_take(&rob_lock);
    struct extent *chain = tray_take_pages(heap->arena);
    lock_release(&rob_lock);
    pages += chain_pages(chain);
    size_t active = atomic_get(&heap->arena->active_pages) - active_at_first;
    PROPERTY(pages == active, "%zu pages are in use, %zu in the tray and the stack", active, pages);
    arena_free_chain(chain);
    stack_flush(heap);
    PROPERTY(atomic_get(&heap->arena->active_pages) == active_at_first, "pages are lost");
}

static const struct scenario put_and_take_blocks = {"take, free two, free third, of pages",
                                                    blocks_that_are_out,
                                                    {take_block, free_two_blocks, free_third_block},
                                                    all_blocks_are_somewhere};
static const struct scenario put_and_empty_blocks = {"empty, free two, free third, of pages",
                                                     blocks_that_are_out,
                                                     {empty, free_two_blocks, free_third_block},
                                                     all_blocks_are_somewhere};

static void blocks_in_the_tray(void)
{
    blocks_that_are_out();
    explorer_watch(&heaps_of[0].stack_pages, "stack_pages");
    free_two_blocks();
    free_third_block();
}

static void take_blocks(void)
{
    stack_take_tray(&heaps_of[0]);
}

static void fork_finds_blocks(void)
{
    struct heap *heap = &heaps_of[0];
    lock_take(&rob_lock);
    size_t pages = atomic_get(&heap->stack_pages);
    pages += chain_pages(tray_top(atomic_get(&trays[heap->arena->index].pages)));
    PROPERTY(pages == SLOTS * BLOCK_PAGES, "%zu pages are in a place that fork finds", pages);
    lock_release(&rob_lock);
}

static const struct scenario take_and_fork_blocks = {"take, fork, of pages",
                                                     blocks_in_the_tray,
                                                     {take_blocks, fork_finds_blocks},
                                                     all_blocks_are_somewhere};

TEST(blocks_of_a_tray_are_in_one_place)
{
    explore(&put_and_take_blocks);
    explore(&put_and_empty_blocks);
    explore(&take_and_fork_blocks);
}

/* --- Mistakes that must be found -------------------------------------------------------------- */

TEST(mistakes_with_trays_are_found)
{
    explore_finds(&put_and_take, MEMORY_ORDERED, MISTAKE_SPLIT_SWAP, "arrived");
    explore_finds(&put_and_take, MEMORY_C11, MISTAKE_NO_ACQUIRE, "race");
    explore_finds(&put_and_take, MEMORY_C11, MISTAKE_NO_RELEASE, "race");
    explore_finds(&put_and_take_blocks, MEMORY_C11, MISTAKE_NO_RELEASE, "race");
}
