/* SPDX-License-Identifier: MIT
 *
 * Call stacks, each kept once and for ever, under a number of 32 bits. Any thread may put and get at any
 * time, a signal handler too: there is no lock, and a fork finds the store whole.
 *
 *     buckets -> call stacks of one hash, newest first
 *     chunks  -> where they lie: the number of one says its chunk and its place there
 */
#ifndef MALLOW_STACK_STORE_H
#define MALLOW_STACK_STORE_H

#include "../base/atomic.h"
#include "../base/base.h"

/* What is counted by call stack: by profiles, then by who chooses tracked blocks (api/layout.c). */
#define STACK_FIGURES_OF_PROFILE 8u
#define STACK_FIGURES (MW_TRACK ? STACK_FIGURES_OF_PROFILE + 2 : STACK_FIGURES_OF_PROFILE)

struct call_stack {
    struct call_stack *next;  /* const once in the store: in its bucket */
    struct call_stack *older; /* const once in the store: all of them */
    uint64_t hash;            /* const */
    uint32_t id;              /* const */
    uint32_t count;           /* const */
    _Atomic uint64_t figures[STACK_FIGURES];
    uintptr_t frames[]; /* const: return addresses, the innermost first */
};

/* The number of a call stack, which is never 0; 0 if there is no memory for it. */
static uint32_t store_put(const uintptr_t *frames, size_t count);

/* The call stack of a number that store_put gave; NULL for 0. */
static struct call_stack *store_get(uint32_t id);

/* The newest of all; `older` leads to the rest. */
static struct call_stack *store_newest(void);

#endif
