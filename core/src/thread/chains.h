/* SPDX-License-Identifier: MIT
 *
 * Where the chains of a heap's stacks lie: in cells, from which anybody may take, or in lists of the hit paths. stack.h
 * says when and why.
 */
#ifndef MALLOW_CHAINS_H
#define MALLOW_CHAINS_H

#include "stack.h"

/* The whole chain of a class, if anybody may take it; NULL if there is none. Owner or robber. */
ALWAYS_INLINE struct extent *cell_empty(_Atomic(struct extent *) *cell)
{
    return atomic_get(cell) != NULL ? atomic_swap(cell, NULL) : NULL; /* pairs with cell_put */
}

/* Only the owner puts, and never where something is: that would be lost. */
static void cell_put(_Atomic(struct extent *) *cell, struct extent *chain);

/* Whether the stack of a page class is a list of the hit paths, which only the owner knows. */
ALWAYS_INLINE bool stack_is_listed(struct heap *heap, unsigned class)
{
    return heap->is_private && page_class_is_listed(class) && class < heap->listed_end;
}

/* Counts what lies in lists now into stack_pages. Owner. */
static void lists_count(struct heap *heap);

/* What lies in lists, in pages. Any thread: others may be changing it. */
static size_t lists_pages(const struct heap *heap);

/* stack_pages as that would make it. Any thread: others may be changing it. */
static size_t stack_pages_now(const struct heap *heap);

/* Raises the limit of a list, by what the stacks may still take. Owner. */
static void list_give_room(struct heap *heap, unsigned list);

/* Lowers the limits of lists that may have too much together, and notes how long they are at least. Owner, now and then. */
static void lists_look(struct heap *heap);

/* A list that is empty has no room any more, and all that are empty. Owner. */
static void list_close(struct heap *heap, unsigned list);
static void lists_close_empty(struct heap *heap);

/* Whether all that a stack has lies in a list which was empty at some time lately: what came since counts as old only
 * if it is there for long from now on. Owner. */
static bool list_begins_to_age(struct heap *heap, unsigned class);

/* Whether a block that comes past its list, which has no room, lies there already: among the first ones. Owner. */
static bool list_has_block(struct heap *heap, struct extent *extent);

/* Whether all that a stack has lies in a list. */
static bool stack_is_list(struct heap *heap, unsigned class);

/* Takes the lower half of such a one, but not its top if `keeps_one`; it stays counted. Owner. */
static struct extent *list_halve(struct heap *heap, unsigned class, bool keeps_one);

/* Cuts a chain behind its first `keep` blocks. Returns the rest. */
static struct extent *chain_cut(struct extent **chain, size_t keep);

/* The pages of a chain. They stay CACHED until the arena has them, so that a second free of one is noticed. */
static size_t chain_pages(struct extent *chain);

/* The whole chain of a class, which stays counted; NULL if there is none. Owner. */
static struct extent *stack_take_all(struct heap *heap, unsigned class);

/* Puts a chain that is counted where there is none. Owner. */
static void stack_put(struct heap *heap, unsigned class, struct extent *chain);

/* Puts a block on top, and counts it. Owner. */
static void stack_push(struct heap *heap, unsigned class, struct extent *extent);

/* Takes the top of a stack; NULL if it is empty. */
static struct extent *stack_pop(struct heap *heap, unsigned class);

/* Puts a block on top that stack_pop has just taken, as old as it was. */
static void stack_put_back(struct heap *heap, unsigned class, struct extent *extent);

/* After a free into the list of a page class, in a heap that takes samples, before its next tick. */
static void stack_note_sample(struct heap *heap, unsigned class);

#endif
