/* SPDX-License-Identifier: MIT
 *
 * A chain of free pages that is robbed while its owner uses it is in one place, and the sums of pages
 * agree when all is over.
 */
#include "protocol.h"

/* The fewest pages of a class that may be private. */
enum { PAGES = 9, CLASS = PAGE_CLASS_LISTED };

static size_t active_before;

static void stack_of_two(void)
{
    heaps_reset();
    struct heap *owner = &heaps_of[0];
    active_before = atomic_get(&owner->arena->active_pages);
    struct extent *extents[2];
    for (unsigned i = 0; i < 2; i++) {
        extents[i] = arena_alloc(owner->arena, PAGES, os_page_size);
        PROPERTY(extents[i] != NULL, "out of memory");
    }
    for (unsigned i = 0; i < 2; i++) {
        heap_put_pages(owner, extents[i]);
    }
    explorer_watch(&owner->stacks[CLASS], "cell");
    explorer_watch(&owner->stack_pages, "stack_pages");
    explorer_watch(&owner->robbed_pages, "robbed_pages");
}

static void private_stack_of_two(void)
{
    stack_of_two();
    stack_make_private(&heaps_of[0]);
}

static void pop_and_put(void)
{
    struct heap *owner = &heaps_of[0];
    struct extent *first = stack_pop(owner, CLASS);
    struct extent *second = stack_pop(owner, CLASS);
    PROPERTY(first == NULL || first != second, "a block was handed out twice");
    if (first != NULL) {
        memset((void *)first->start, 1, os_page_size);
        heap_put_pages(owner, first);
    }
    if (second != NULL) {
        memset((void *)second->start, 2, os_page_size);
        arena_free(arena_of(second), second);
    }
    stack_recount(owner);
}

static void halve(void)
{
    stack_halve(&heaps_of[0], PAGE_CLASSES);
    stack_recount(&heaps_of[0]);
}

static void pop_and_put_alone(void)
{
    stack_make_private(&heaps_of[0]);
    pop_and_put();
}

static void pop_and_put_then_share(void)
{
    pop_and_put();
    stack_make_public(&heaps_of[0]);
    halve();
}

static void trim(void)
{
    stack_trim(&heaps_of[0], clock_stamp() + 1);
}

static void rob(void)
{
    stack_rob(&heaps_of[0]);
}

static void sums_agree(void)
{
    struct heap *owner = &heaps_of[0];
    size_t in_cell = 0;
    struct extent *chain = stack_take_all(owner, CLASS);
    for (struct extent *at = chain; at != NULL; at = at->slab.below) {
        PROPERTY(extent_state(at) == EXTENT_CACHED, "a block in a stack is in state %d",
                 extent_state(at));
        in_cell += extent_pages(at);
        PROPERTY(in_cell <= 2 * PAGES, "more blocks in the stack than there are");
    }
    size_t stack = atomic_get(&owner->stack_pages);
    size_t robbed = atomic_get(&owner->robbed_pages);
    PROPERTY(stack - robbed == in_cell, "%zu pages in the stack: counted %zu less %zu", in_cell,
             stack, robbed);
    size_t active = atomic_get(&owner->arena->active_pages) - active_before;
    PROPERTY(active == in_cell, "%zu pages are in use, %zu in the stack", active, in_cell);
    if (chain != NULL) {
        stack_put(owner, CLASS, chain);
    }
    stack_flush(owner);
    PROPERTY(atomic_get(&owner->stack_pages) == 0, "an empty stack counts pages");
}

static const struct scenario pop_and_rob = {
    "pop and put, rob, rob", stack_of_two, {pop_and_put, rob, rob}, sums_agree};
static const struct scenario halve_and_rob = {
    "halve, rob, rob", stack_of_two, {halve, rob, rob}, sums_agree};
static const struct scenario trim_and_rob = {
    "trim, rob, rob", stack_of_two, {trim, rob, rob}, sums_agree};

static const struct scenario private_and_rob = {
    "make private, pop and put, rob, rob", stack_of_two, {pop_and_put_alone, rob, rob}, sums_agree};
static const struct scenario share_and_rob = {
    "pop and put in private, make public, halve, rob, rob",
    private_stack_of_two,
    {pop_and_put_then_share, rob, rob},
    sums_agree};

TEST(a_robbed_stack_is_in_one_place)
{
    explore(&pop_and_rob);
}

TEST(a_stack_is_robbed_while_it_is_halved)
{
    explore(&halve_and_rob);
}

TEST(a_stack_is_robbed_while_it_is_trimmed)
{
    explore(&trim_and_rob);
}

TEST(a_stack_becomes_private_while_it_is_robbed)
{
    explore(&private_and_rob);
}

TEST(a_private_stack_is_robbed_once_it_is_private_no_more)
{
    explore(&share_and_rob);
}

/* --- Mistakes that must be found ---------------------------------------------------------------------- */

/* stack_pop that leaves what is below the top in the cell, as if nobody else took from there. */
static void pop_without_swap(void)
{
    _Atomic(struct extent *) *cell = &heaps_of[0].stacks[CLASS];
    struct extent *top = atomic_get_acquire(cell);
    if (top != NULL) {
        atomic_set_release(cell, top->slab.below);
        heap_count_stack(&heaps_of[0], -extent_pages(top));
        atomic_set(&top->state, EXTENT_ACTIVE);
        arena_free(arena_of(top), top);
    }
}

/* stack_make_private without an exchange: a robber takes the same chain. */
static void pop_in_private_without_swap(void)
{
    struct heap *owner = &heaps_of[0];
    struct extent *chain = atomic_get_acquire(&owner->stacks[CLASS]);
    atomic_set(&owner->stacks[CLASS], NULL);
    stack_make_private(owner);
    stack_put(owner, CLASS, chain);
    pop_and_put();
}

static const struct scenario private_without_swap = {"mistake: private without exchange",
                                                     stack_of_two,
                                                     {pop_in_private_without_swap, rob},
                                                     sums_agree};

static const struct scenario pop_is_no_exchange = {
    "mistake: pop without exchange", stack_of_two, {pop_without_swap, rob}, sums_agree};

TEST(mistakes_with_stacks_are_found)
{
    explore_finds(&pop_is_no_exchange, MEMORY_ORDERED, MISTAKE_NONE, "pop without exchange");
    explore_finds(&private_without_swap, MEMORY_ORDERED, MISTAKE_NONE, "private without exchange");
    explore_finds(&share_and_rob, MEMORY_C11, MISTAKE_NO_RELEASE, "race");
    explore_finds(&pop_and_rob, MEMORY_ORDERED, MISTAKE_SPLIT_SWAP, "pop and put");
    explore_finds(&pop_and_rob, MEMORY_C11, MISTAKE_NO_ACQUIRE, "race");
    explore_finds(&pop_and_rob, MEMORY_C11, MISTAKE_NO_RELEASE, "race");
}
