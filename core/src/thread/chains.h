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

/* Cuts a chain behind its first `keep` blocks. Returns the rest. */
static struct extent *chain_cut(struct extent **chain, size_t keep);

/* The whole chain of a class; NULL if there is none. Owner. */
static struct extent *stack_take_all(struct heap *heap, unsigned class);

/* Puts a chain where there is none. Owner. */
static void stack_put(struct heap *heap, unsigned class, struct extent *chain);

/* Puts a block on top. Owner. */
static void stack_push(struct heap *heap, unsigned class, struct extent *extent);

/* Takes the top of a stack; NULL if it is empty. */
static struct extent *stack_pop(struct heap *heap, unsigned class);

/* Puts a block on top that stack_pop has just taken, as old as it was. */
static void stack_put_back(struct heap *heap, unsigned class, struct extent *extent);

/* After a free into the list of a page class, in a heap that takes samples, before its next tick. */
static void stack_note_sample(struct heap *heap, unsigned class);

#endif
