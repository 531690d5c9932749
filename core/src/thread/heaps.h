/* SPDX-License-Identifier: MIT
 *
 * All heaps, for who looks at each.
 */
#ifndef MALLOW_HEAPS_H
#define MALLOW_HEAPS_H

#include "thread.h"

/* The first heap and the next one: all that threads have or had, then the shared one. */
static struct heap *heap_first(void);
static struct heap *heap_after(struct heap *heap);

/* Takes everything out of the way when the kernel gives no more memory. The calling thread's heap. */
static void heap_reclaim(struct heap *heap);

/* Gives back what waits in the quarantine of the shared one, that of threads that ended with it. */
static void heaps_empty_shared(void);

/* Ends the program if one of these was written to; not while another thread is at work there. */
static void heaps_check_shared(void);

#endif
