/* SPDX-License-Identifier: MIT
 *
 * Exact counts of what a thread allocates and frees, for the thread that asks for them.
 */
#ifndef MALLOW_COUNT_H
#define MALLOW_COUNT_H

#include "thread.h"

/* From now on every call of this thread goes through the slow path and adds what it allocates or
 * frees to `allocated` and `deallocated` of the heap, which is returned; the numbers stay where they
 * are for as long as the thread lives. NULL if the thread has no heap of its own. */
static struct heap *thread_count(void);

/* A block of this thread's has got another size where it was. */
static void thread_count_resize(size_t old_size, size_t new_size);

#endif
