/* SPDX-License-Identifier: MIT
 *
 * The stack of a call: by frame pointers here, or as a copy that the collector unwinds.
 */
#include "thread.h"

#include <string.h>

/* What a function that keeps its frame pointer finds at it. */
struct frame {
    uintptr_t caller_frame;
    uintptr_t return_address;
};

/* --- Which calls have a stack ----------------------------------------------------------------- */

static uint64_t thread_random(struct thread *thread)
{
    /* xorshift64* */
    uint64_t x = thread->random | 1;
    x ^= x >> 12;
    x ^= x << 25;
    x ^= x >> 27;
    thread->random = x;
    return x * 0x2545f4914f6cdd1du;
}

/* Base-2 logarithm of a number in [1, 2^32), to about 0.0002: the series of ln((1+z)/(1-z)). */
static double log2_of(uint32_t number)
{
    unsigned exponent = floor_log2(number);
    double mantissa = (double)number / (double)((uint64_t)1 << exponent);
    double z = (mantissa - 1.4142135623730951) / (mantissa + 1.4142135623730951);
    double square = z * z;
    return exponent + 0.5 + 2.8853900817779268 * z * (1 + square * (1.0 / 3 + square / 5));
}

/* The next gap between sampled bytes: exponential, so that what came before says nothing. */
static COLD void thread_draw_gap(struct thread *thread)
{
    uint32_t uniform = (uint32_t)(thread_random(thread) >> 32) | 1;
    uint64_t distance = atomic_load_explicit(&control->stack_distance, memory_order_relaxed);
    double gap = (32 - log2_of(uniform)) * 0.6931471805599453 * (double)distance;
    thread->distance = distance;
    thread->until_stack = 1 + (int64_t)gap;
}

/* The first allocation of a thread, one that has a stack, and each where none or all have one. */
static COLD bool stack_is_due_slow(struct thread *thread, int64_t size)
{
    if (control->stacks == STACKS_NONE) {
        thread->until_stack = INT64_MAX;
        return false;
    }
    if (atomic_load_explicit(&control->stack_distance, memory_order_relaxed) == 0) {
        thread->until_stack = 0;
        return true;
    }
    if (thread->distance == 0) {
        thread_draw_gap(thread);
        thread->until_stack -= size;
    }
    return thread->until_stack <= 0;
}

ALWAYS_INLINE bool stack_is_due(struct thread *thread, size_t size)
{
    int64_t bytes = (int64_t)size_min(size, (size_t)1 << 60);
    thread->until_stack -= bytes;
    return unlikely(thread->until_stack <= 0) && stack_is_due_slow(thread, bytes);
}

/* --- By frame pointers ------------------------------------------------------------------------ */

/* Return addresses, and where the frames of the functions end that they are in. */
struct stack_frames {
    unsigned count;
    uintptr_t addresses[STACK_LIMIT];
    uintptr_t ends[STACK_LIMIT];
};

/* The caller is always known. The others are as far as frames lie ever higher in this thread's
 * stack; whether what was found there is code, the collector decides. */
static void stack_walk(const struct thread *thread, uintptr_t frame, struct stack_frames *found)
{
    const struct frame *at = (const struct frame *)frame;
    found->addresses[0] = at->return_address;
    found->ends[0] = frame;
    found->count = 1;
    uintptr_t top = thread->stack_top;
    if (frame < thread->stack_low || top < sizeof(struct frame)) {
        return;
    }
    while (found->count < STACK_LIMIT) {
        uintptr_t next = at->caller_frame;
        if (next <= (uintptr_t)at || next > top - sizeof(struct frame) || next % 8 != 0) {
            break;
        }
        at = (const struct frame *)next;
        found->ends[found->count - 1] = next;
        if (at->return_address < 4096) {
            break;
        }
        found->addresses[found->count] = at->return_address;
        found->ends[found->count] = next;
        found->count++;
    }
}

/* Which of the frames has this address of the stack among its locals, from 1 on; 0: none. */
static uint64_t stack_frame_at(uintptr_t begin, const struct stack_frames *found, uintptr_t address)
{
    for (unsigned i = 0; i < found->count && begin <= address; i++) {
        if (address < found->ends[i]) {
            return 1 + i;
        }
    }
    return 0;
}

/* Most stacks differ from the one before only in their innermost frames. There is room for all. */
ALWAYS_INLINE void stack_send_frames(struct thread *thread, uintptr_t frame,
                                     struct script_frames *script)
{
    struct stack_frames stack;
    stack_walk(thread, frame, &stack);
    for (uint64_t i = 0; i < script->count; i++) {
        script->frames[i].stack = stack_frame_at(frame, &stack, script->frames[i].stack);
    }
    script_send(thread, script);
    const uintptr_t *found = stack.addresses;
    uint64_t count = stack.count;
    struct ring *ring = thread->ring;
    uint64_t common = 0;
    uint64_t most = count < ring->previous_count ? count : ring->previous_count;
    while (common < most && ring->previous[common] == found[count - 1 - common]) {
        common++;
    }
    uint64_t fresh = count - common;
    thread_put(thread, 0, MESSAGE_STACK);
    thread_put(thread, 1, fresh | common << 16);
    for (uint64_t i = 0; i < fresh; i++) {
        thread_put(thread, 2 + i, found[i]);
        ring->previous[count - 1 - i] = found[i];
    }
    ring->previous_count = count;
    thread_publish(thread, 2 + fresh);
}

/* --- As a copy -------------------------------------------------------------------------------- */

static NOINLINE struct thread *stack_send_copy(struct thread *thread, uintptr_t frame)
{
    const struct frame *own = (const struct frame *)frame;
    uintptr_t stack = frame + sizeof(struct frame); /* the caller's, after the return */
    size_t size = 0;
    if (thread->stack_low <= stack && stack < thread->stack_top) {
        size = size_min(thread->stack_top - stack, control->copy_bytes) & ~(size_t)7;
    }
    uint64_t words[] = {size, own->return_address, stack, own->caller_frame, thread->distance};
    return thread_send(thread, MESSAGE_STACK_COPY, words, array_count(words), (void *)stack, size);
}

static NOINLINE struct thread *stack_send(struct thread *thread, uintptr_t frame)
{
    struct script_frames script;
    script.count = 0;
    /* First of all, since a forked child has no ring before it asks for room. */
    thread = thread_room(thread, CALL_WORDS);
    if (unlikely(thread == NULL)) {
        return NULL;
    }
    thread = python_walk(thread, &script);
    if (thread != NULL && script.count == 0) {
        thread = ruby_walk(thread, &script);
    }
    if (unlikely(thread == NULL)) {
        return NULL;
    }
    /* Room for all of it and the call, so that no other call gets its stack. */
    bool is_copy = control->stacks == STACKS_COPY;
    uint64_t most = is_copy ? 6 + control->copy_bytes / 8 : 2 + STACK_LIMIT;
    thread = thread_room(thread, most + 3 + SCRIPT_WORDS * script.count + CALL_WORDS);
    if (unlikely(thread == NULL)) {
        return NULL;
    }
    if (is_copy) {
        script_send(thread, &script);
        thread = stack_send_copy(thread, frame);
    } else {
        stack_send_frames(thread, frame, &script);
    }
    if (thread != NULL && thread->distance != 0) {
        thread_draw_gap(thread);
    }
    return thread;
}
