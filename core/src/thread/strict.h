/* SPDX-License-Identifier: MIT
 *
 * Threads in the strict mode of seccomp.
 */
#ifndef MALLOW_STRICT_H
#define MALLOW_STRICT_H

#include "thread.h"

/* This thread is about to be in the strict mode of seccomp (os/os.h), or is not, after all. From any thread or
 * signal handler. One that has no heap gets it now: later the kernel would end the thread for asking for memory, perhaps
 * while it holds a lock. One that can have none is not noted. What a child of vfork does, which has its parent's heap, is
 * noted of the parent. */
UNUSED static void thread_note_strict(bool begins);

#endif
