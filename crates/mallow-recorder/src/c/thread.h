/* SPDX-License-Identifier: MIT
 *
 * The recorder's side of a thread.
 */
#ifndef RECORDER_THREAD_H
#define RECORDER_THREAD_H

#include "layout.h"
#include "system.h"

/* Lives in memory that a fork wipes: a child finds zeros, `limit` among them, and so comes to the
 * slow path, where it starts anew. No fork handler is needed, and none can be missed. Everything
 * here is the owner thread's, which writes to it with each call: no two share a line. */
struct thread {
    _Alignas(CACHE_LINE) uint64_t head; /* words written */
    uint64_t limit; /* up to which nothing needs to be looked at; at most the ring's room */
    uint64_t *words;
    uint64_t mask;
    /* The frame of the recorded call that is under way, or 0. A call whose own frame lies deeper is
     * one that the allocator makes for itself. One that lies higher says that the call under way
     * was left by a longjmp. An exception that leaves it sets it to 0: new_left. */
    uintptr_t inside;
    struct ring *ring; /* NULL: the slot is not mapped in this process */
    int64_t until_stack;
    uint32_t stamps_left; /* so many calls may have the time of the last look at the clock */
    uint32_t beat;        /* of the collector, at that look */
    uint64_t stamp;       /* that time */
    uint64_t distance;    /* that `until_stack` was drawn with */
    uint64_t random;
    uintptr_t stack_low, stack_top;
    uint64_t leaving_size;      /* of an operator new that may be left by an exception */
    const void *within;         /* what the last malloc within it gave */
    uint64_t within_size;       /* 0: nothing */
    uint64_t leaving_alignment; /* of one with an alignment */
    uint32_t leaving_op;        /* 0: there is none */
};

/* Finds room for `count` words, or NULL: the call goes unrecorded. The thread may be another
 * afterwards, in a forked child. */
static struct thread *thread_make_room(struct thread *thread, uint64_t count);

static struct control *control;

ALWAYS_INLINE uint64_t now(void)
{
    if (unlikely(control->clock == CLOCK_SYSTEM)) {
        return system_time_ns();
    }
    return read_counter();
}

ALWAYS_INLINE struct thread *thread_room(struct thread *thread, uint64_t count)
{
    return likely(thread->head + count <= thread->limit) ? thread : thread_make_room(thread, count);
}

ALWAYS_INLINE void thread_put(struct thread *thread, uint64_t at, uint64_t word)
{
    thread->words[(thread->head + at) & thread->mask] = word;
}

/* Hands `count` words to the collector. */
ALWAYS_INLINE void thread_publish(struct thread *thread, uint64_t count)
{
    thread->head += count;
    atomic_store_explicit(&thread->ring->head, thread->head,
                          memory_order_release); /* pairs with the collector's read */
}

/* A message of bytes with `count` words before them, as far as the ring can hold them. */
static struct thread *thread_send(struct thread *thread, enum message kind, const uint64_t *words,
                                  uint64_t count, const void *bytes, size_t size);

#endif
