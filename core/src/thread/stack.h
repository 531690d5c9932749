/* SPDX-License-Identifier: MIT
 *
 * The free pages of a heap: a stack for each page class, the block that was freed last on top, so
 * that warm pages come back first. Large blocks and slabs take their pages here before they ask an
 * arena.
 *
 * A stack is a chain of extents, linked by `below`, in one of two places:
 *
 *     cell, stacks[class]     anybody may take the chain
 *     list, free[class]       private: only the owner knows it, and the hit paths use it, as they use
 *                             the list of slots of a medium class (magazine.h)
 *
 * Anybody may take what lies in a cell, with an exchange for NULL, and then holds the whole chain: it is
 * never in two hands. A robber gives it to the arenas, and puts nothing back. Only the heap's thread puts
 * into a cell. It pops and pushes by compare and swap, again if a robber was faster: as nobody else puts, a
 * block that it has seen on top cannot have left and come back meanwhile (ABA), and the rest of the stack
 * is never in its hands, where a fork would lose it. A whole chain it stores, where it has emptied the cell
 * or found it empty: others only empty it.
 *
 *     owner, pop                       owner, push                  robber
 *     top = cell                       top = cell                   chain = swap(cell, NULL)
 *       NULL: empty or robbed          block->below = top             NULL: empty
 *     replace top by top->below        replace top by block         each of the chain: arena_free_chain
 *
 * An exchange takes as long as malloc and free else take together: it waits until the program's
 * writes before it have reached memory. So while a heap is busy and holds little in its stacks they are
 * private (is_private), but for those of the smallest page classes: the owner takes the chains out of
 * the cells by exchanges, once, and puts them back when that is over. What lies in private stacks while
 * their thread sleeps stays there, so all that heaps may hold in them together is bounded, and where
 * threads are many none has any.
 *
 * In a heap that takes samples each block that comes into a list has its chance to be one whose turn is a sample (chance.h).
 * The list ends above the first such block: that one, and what lies below it, is in the cell meanwhile, where it may be
 * robbed. A call that finds the list empty takes it and is the sample; the rest comes back into the list, and each block
 * of it has its chance anew. So whoever takes a chain that lies in both places may put it back in any way.
 *
 *     list -> a -> b     cell -> marked -> c -> d
 *
 * A list of LISTED_MOST blocks is full: the next ones wait in the cell too.
 *
 * The owner alone writes stack_pages. A robber adds what it took to robbed_pages, and the owner
 * takes that out of the sum when the sum matters: so of cells stack_pages may be too large, never too small. What the hit
 * paths did in lists it learns at ticks, see lists_count.
 */
#ifndef MALLOW_STACK_H
#define MALLOW_STACK_H

#include "heap_state.h"

/* Pages for a slab or a block of at most LARGE_MAX, rounded up to a class or one of those that page_class_roomy
 * allows: an active extent. NULL if out of memory. */
static struct extent *heap_take_pages(struct heap *heap, size_t pages);

/* Takes back an active extent that is not huge and no slab: it becomes the top of its class's
 * stack. */
static void heap_put_pages(struct heap *heap, struct extent *extent);

/* The same of what was a slab. A heap keeps of such pages what it has taken, halved each time that it settles:
 * what a thread empties that others allocated from goes to the arena, where they find it. */
static void heap_put_slab_pages(struct heap *heap, struct extent *extent);

/* Puts a block that the program freed where other heaps find it, if the thread allocates no such blocks: whether it
 * did. */
static bool stack_hand_on(struct heap *heap, struct extent *extent);

/* Takes a block that is on top of its stack, begins at a multiple of `alignment` and has at least so many
 * pages, at most about twice as many; NULL if there is none. */
static struct extent *stack_pop_aligned(struct heap *heap, size_t pages, size_t alignment);

/* After a free into a list of the heap: the stacks keep to their limit, and of the latest block's page class something
 * stays; 0: it was a slot. */
static void stack_note_put(struct heap *heap, unsigned latest);

/* Gives all blocks, or those that have been there since before `stamp`, to the arenas. Owner. */
static void stack_flush(struct heap *heap);
static void stack_trim(struct heap *heap, uint32_t stamp);

/* Makes the stacks private if they may be, or no longer if they may not, by what heaps may hold in
 * private stacks now. Owner, at a tick. */
static void stack_set_private(struct heap *heap, bool is_busy);

/* Gives all blocks of a heap that lie in cells to the arenas. Any thread. */
static void stack_rob(struct heap *heap);

/* Whether it would find nothing, of a heap at rest: what lies in private stacks stays there. */
static bool stack_has_no_cells(struct heap *heap);

/* The same of a heap whose thread does not exist, and of all blocks. */
static void stack_rob_orphan(struct heap *heap);

/* Takes each chain for a moment and walks over it. Owner. */
static bool stack_is_valid(struct heap *heap);

#endif
