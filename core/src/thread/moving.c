/* SPDX-License-Identifier: MIT */
#include "moving.h"

#include "../slots/direct.h"
#include "tray.h"

/* Looks at whether the other side is done: quick ones, which only fork has, and others that are so far apart (ms). */
#define MOVING_QUICK_LOOKS 200u
#define MOVING_LOOKS 300u
#define MOVING_LOOK_MS 1u

static _Atomic uint32_t forks_begun; /* and not over */

/* This thread has a lock that fork takes: of the tray, or of an arena whose hook it is in. */
static bool fork_waits_for_me(void)
{
    return lock_is_mine(&tray_lock) || directs_have(lock_is_mine);
}

static void moving_begin(struct heap *heap)
{
    uint8_t depth = atomic_get(&heap->moves);
    check(depth < UINT8_MAX);
    if (depth != 0) {
        atomic_set(&heap->moves, (uint8_t)(depth + 1));
        return;
    }
    if (heap->thread == NULL || lock_gate_is_mine()) {
        return; /* the shared heap, or this thread forks */
    }
    for (unsigned look = 0; look < MOVING_LOOKS; look++) {
        atomic_set_ordered(&heap->moves, 1); /* before the look; pairs with moving_stop */
        uint32_t forks = atomic_get_ordered(&forks_begun);
        if (likely(forks == 0) || fork_waits_for_me()) {
            return;
        }
        atomic_set_release(&heap->moves, 0);
        lock_take(&rob_lock); /* fork has it soon, until it is over */
        lock_release(&rob_lock);
        os_wait(&forks_begun, forks, MOVING_LOOK_MS);
    }
    atomic_set(&heap->moves, 1);
}

static void moving_end(struct heap *heap)
{
    uint8_t depth = atomic_get(&heap->moves);
    if (depth != 0) {
        atomic_set_release(&heap->moves, (uint8_t)(depth - 1)); /* pairs with moving_stop */
    }
}

/* What the caller's own heap moves, if this is a signal handler, it finishes in the child too. */
static bool moves_elsewhere(struct heap *heap)
{
    return atomic_peek(&heap->thread) != os_thread_id() && atomic_get_ordered(&heap->moves) != 0;
}

static void moving_stop(void)
{
    atomic_add_ordered(&forks_begun, 1); /* before the looks; pairs with moving_begin */
    unsigned looks = 0;
    for (struct heap *at = atomic_get_acquire(&heaps.all); at != NULL; at = at->next) {
        for (; moves_elsewhere(at) && looks < MOVING_QUICK_LOOKS + MOVING_LOOKS; looks++) {
            if (looks < MOVING_QUICK_LOOKS) {
                cpu_relax();
            } else {
                os_wait(&forks_begun, atomic_get(&forks_begun), MOVING_LOOK_MS);
            }
        }
    }
}

static void moving_go_on(void)
{
    uint32_t forks = atomic_get(&forks_begun);
    /* 0 already: the child of a handler that interrupted this fork. */
    while (forks != 0 && !atomic_replace(&forks_begun, &forks, forks - 1)) {
    }
}

static void moving_forget_others(void)
{
    atomic_set(&forks_begun, 0);
    for (struct heap *at = atomic_get_acquire(&heaps.all); at != NULL; at = at->next) {
        if (moves_elsewhere(at)) {
            atomic_set(&at->moves, 0);
        }
    }
}
