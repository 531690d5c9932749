/* SPDX-License-Identifier: MIT */
#include "calls.h"

#include "unwind.h"

#include <string.h>

/* Where return addresses lay when a walk from some place met them. */
struct known_calls {
    uint32_t count;
    uint32_t number;                /* in the store; 0: nothing is known */
    uintptr_t top;                  /* where the walk began ... */
    uintptr_t caller;               /* ... and the first address */
    uint32_t distances[CALLS_MOST]; /* from `top` to where each address lies */
};

/* Several stacks have a place in common where a program allocates through a function of its own, as
 * bash does: the caller is that function, and only what lies above differs. */
#define KNOWN_WAYS 4u
#define KNOWN_SETS 1024u

struct known_set {
    _Atomic bool is_busy; /* somebody reads or writes it: it is not waited for */
    uint32_t turn;        /* what the next walk replaces, modulo KNOWN_WAYS */
    struct known_calls calls[KNOWN_WAYS];
};

static struct known_set known_sets[KNOWN_SETS] IN_SECTION(calls);

/* On x86-64 a call leaves the return address just below where the stack pointer is afterwards. */
#if defined(__x86_64__)
#define HAS_FIXED_PLACES true
#else
#define HAS_FIXED_PLACES false
#endif

static struct known_set *known_at(uintptr_t top, uintptr_t caller)
{
    uint64_t hash = (top ^ caller << 7) * 0x9e3779b97f4a7c15u;
    return &known_sets[hash >> 54];
}

static_assert(KNOWN_SETS == (uint64_t)1 << (64 - 54), "the upper bits are an index");

/* The addresses lie on the stack of this thread, above where it is now. */
static bool still_holds(const struct known_calls *known, uint32_t number)
{
    const uintptr_t *frames = store_get(number)->frames;
    for (uint32_t i = 0; i < known->count; i++) {
        if (*(const uintptr_t *)(known->top + known->distances[i]) != frames[i]) {
            return false;
        }
    }
    return true;
}

static bool note_places(struct known_calls *known, uintptr_t top, const uintptr_t *tops,
                        size_t count)
{
    for (size_t i = 0; i < count; i++) {
        uintptr_t place = tops[i] - sizeof(uintptr_t);
        if (place <= top || place - top >= UINT32_MAX) {
            return false;
        }
        known->distances[i] = (uint32_t)(place - top);
    }
    return true;
}

/* Walks; notes what it finds in `known`, which may be NULL. */
static NOINLINE uint32_t calls_walk(struct known_calls *known, uintptr_t top, uintptr_t caller)
{
    uintptr_t frames[CALLS_MOST + 1], tops[CALLS_MOST + 1];
    size_t count = unwind_often(frames, tops, CALLS_MOST);
    uint32_t number = count != 0 ? store_put(frames, count) : store_put(&caller, 1);
    if (known == NULL) {
        return number;
    }
    known->number = 0;
    if (HAS_FIXED_PLACES && number != 0 && count != 0 && note_places(known, top, tops, count)) {
        known->top = top;
        known->caller = caller;
        known->count = (uint32_t)count;
        known->number = still_holds(known, number) ? number : 0;
    }
    return number;
}

/* The number of a stack that still holds, or 0. */
static uint32_t known_number(const struct known_set *set, uintptr_t top, uintptr_t caller)
{
    for (unsigned way = 0; way < KNOWN_WAYS; way++) {
        const struct known_calls *known = &set->calls[way];
        uint32_t number = known->number;
        if (number != 0 && known->top == top && known->caller == caller &&
            still_holds(known, number)) {
            return number;
        }
    }
    return 0;
}

static uint32_t calls_keep(uintptr_t caller)
{
    uintptr_t top = (uintptr_t)__builtin_frame_address(0);
    struct known_set *set = known_at(top, caller);
    if (atomic_exchange_explicit(&set->is_busy, true, memory_order_acquire)) {
        return calls_walk(NULL, top, caller);
    }
    uint32_t number = known_number(set, top, caller);
    if (number == 0) {
        number = calls_walk(&set->calls[set->turn++ % KNOWN_WAYS], top, caller);
    }
    atomic_set_release(&set->is_busy, false); /* pairs with the exchange above */
    return number;
}

static struct fault_stack calls_kept(uint32_t number)
{
    const struct call_stack *stack = store_get(number);
    if (stack == NULL) {
        return (struct fault_stack){0, 0, NULL};
    }
    return (struct fault_stack){0, stack->count, stack->frames};
}

static size_t (*const fault_capture)(uintptr_t *frames, size_t most) = unwind_here;
