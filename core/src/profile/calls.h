/* SPDX-License-Identifier: MIT
 *
 * Who called, asked at every allocation and every free: a walk up the stack costs microseconds, so
 * what the last walk from the same place found is looked at first. It holds if every return address
 * that it met still lies where it lay.
 */
#ifndef MALLOW_CALLS_H
#define MALLOW_CALLS_H

#include "../os/fault.h"
#include "stack_store.h"

/* Calls that are kept of a stack at most. */
#define CALLS_MOST 24u

/* Keeps the calls of this moment, from the one that returns to `caller` on: their number in the
 * store, 0 if there is no memory. */
static uint32_t calls_keep(uintptr_t caller);

/* The calls of a number. */
static struct fault_stack calls_kept(uint32_t number);

#endif
