/* SPDX-License-Identifier: MIT
 *
 * What valgrind is told, in the debug build, so that it knows the program's blocks: where each begins and
 * ends, and by which calls it was allocated and freed. A request to valgrind is a sequence of instructions
 * that does nothing, with an array of words in a register; outside of valgrind none is made, as the
 * answer to the first was no. The numbers are those of valgrind's published interface.
 *
 * What Mallow reads and writes beside blocks and in freed ones would look like faults of the program. So
 * the thread's errors are off while it is in Mallow: memcheck_enter and memcheck_leave, as often as
 * each other.
 */
#ifndef MALLOW_MEMCHECK_H
#define MALLOW_MEMCHECK_H

#include "../base/base.h"

enum memcheck_request {
    MEMCHECK_IS_HERE = 0x1001,
    MEMCHECK_ALLOCATED = 0x1301, /* address, size, red zone, whether it is zero */
    MEMCHECK_FREED = 0x1302,     /* address, red zone */
    MEMCHECK_RESIZED = 0x130b,   /* address, old size, new size, red zone */
    MEMCHECK_ERRORS = 0x1801,    /* 1: off once more, -1: once less */
    MEMCHECK_NO_ACCESS = 'M' << 24 | 'C' << 16,
    MEMCHECK_UNDEFINED,
    MEMCHECK_DEFINED,
};

/* Outside of valgrind the answer is 0. */
ALWAYS_INLINE uintptr_t memcheck_ask(enum memcheck_request request, uintptr_t a, uintptr_t b,
                                     uintptr_t c, uintptr_t d)
{
    uintptr_t words[6] = {(uintptr_t)request, a, b, c, d, 0};
#if defined(__x86_64__)
    uintptr_t answer = 0;
    __asm__ volatile("rolq $3, %%rdi\n\trolq $13, %%rdi\n\trolq $61, %%rdi\n\trolq $51, %%rdi\n\t"
                     "xchgq %%rbx, %%rbx"
                     : "+d"(answer)
                     : "a"(words)
                     : "cc", "memory");
    return answer;
#elif defined(__aarch64__)
    register uintptr_t answer __asm__("x3") = 0;
    register uintptr_t *given __asm__("x4") = words;
    __asm__ volatile("ror x12, x12, #3\n\tror x12, x12, #13\n\tror x12, x12, #51\n\t"
                     "ror x12, x12, #61\n\torr x10, x10, x10"
                     : "+r"(answer)
                     : "r"(given)
                     : "cc", "memory");
    return answer;
#else
    (void)words;
    return 0;
#endif
}

static bool memcheck_is_here; /* const after start */

ALWAYS_INLINE void memcheck_look(void)
{
    memcheck_is_here = memcheck_ask(MEMCHECK_IS_HERE, 0, 0, 0, 0) != 0;
}

/* Says something of `size` bytes. */
ALWAYS_INLINE void memcheck_tell(enum memcheck_request request, const void *start, size_t size)
{
    if (unlikely(memcheck_is_here)) {
        memcheck_ask(request, (uintptr_t)start, size, 0, 0);
    }
}

ALWAYS_INLINE void memcheck_allocated(const void *block, size_t size, bool is_zero)
{
    if (unlikely(memcheck_is_here)) {
        memcheck_ask(MEMCHECK_ALLOCATED, (uintptr_t)block, size, 0, is_zero);
    }
}

ALWAYS_INLINE void memcheck_resized(const void *block, size_t old_size, size_t size)
{
    if (unlikely(memcheck_is_here)) {
        memcheck_ask(MEMCHECK_RESIZED, (uintptr_t)block, old_size, size, 0);
    }
}

ALWAYS_INLINE void memcheck_enter(void)
{
    if (unlikely(memcheck_is_here)) {
        memcheck_ask(MEMCHECK_ERRORS, 1, 0, 0, 0);
    }
}

ALWAYS_INLINE void memcheck_leave(void)
{
    if (unlikely(memcheck_is_here)) {
        memcheck_ask(MEMCHECK_ERRORS, (uintptr_t)-1, 0, 0, 0);
    }
}

#endif
