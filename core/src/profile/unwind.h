/* SPDX-License-Identifier: MIT
 *
 * Who called: the return addresses on the calling thread's stack. In the middle of malloc, in a signal
 * handler, on a stack of any kind: no lock is taken, nothing is allocated, and no word of the stack is
 * read before it is known to be there. So a damaged stack ends the walk, not the program.
 *
 *     each frame    .eh_frame of its function, if the object has it       cfi.h
 *                   else the words that the kernel left for a signal handler's return
 *                   else the frame pointer, if it leads up the stack
 */
#ifndef MALLOW_UNWIND_H
#define MALLOW_UNWIND_H

#include "cfi.h"

/* The most that anybody asks for. */
#define UNWIND_MOST 128u

/* The return addresses from the innermost outwards, at most `most`; those in Mallow's own functions
 * come first and are left out. 0 if nothing is known. Uses 3 KiB of stack. */
static NOINLINE size_t unwind_here(uintptr_t *frames, size_t most);

/* What a thread has found readable of the stack that it began on, which stays as long as it does. */
struct known_stack {
    uintptr_t start;
    uintptr_t end;
};

/* The same for who asks often: what was found out before about the code of an object is believed as long
 * as the object is there. `known` is that of the thread, and grows; NULL: nothing is kept. */
static NOINLINE size_t unwind_sample(uintptr_t *frames, size_t most, struct known_stack *known);

/* The same for who asks at every call, with the value of the stack pointer behind each: what was found
 * out before about code and stack is believed. */
static NOINLINE size_t unwind_often(uintptr_t *frames, uintptr_t *tops, size_t most);

/* Whether a handler of a signal is among the callers: what it has interrupted may be malloc. */
static NOINLINE bool unwind_is_in_handler(void);

/* Says of a function that it is Mallow's own: so are those that lie between any two of them. */
static void unwind_note_own(const void *function);

#endif
