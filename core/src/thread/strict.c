/* SPDX-License-Identifier: MIT
 *
 * Threads in the strict mode of seccomp, see os/os.h.
 */
#include "thread.h"

static bool own_heap_is_strict(void)
{
    struct heap *heap = heap_own;
    return heap > HEAP_FREES(FREES_WITHOUT_HEAP) && heap->is_strict;
}

static bool (*const os_thread_is_strict)(void) = own_heap_is_strict;

/* A signal may have come while the thread was about to have its heap, or was in the shared one. */
static bool thread_may_attach(void)
{
    return !lock_is_mine(&process.lock) && !lock_is_mine(&process.heaps_lock) &&
           !lock_is_mine(&process.shared_lock);
}

static void thread_note_strict(bool begins)
{
    if (begins && heap_own <= HEAP_FREES(FREES_WITHOUT_HEAP) && thread_may_attach()) {
        thread_leave(thread_enter());
    }
    struct heap *heap = heap_own;
    if (heap > HEAP_FREES(FREES_WITHOUT_HEAP)) {
        heap->is_strict = begins;
        os_note_strict();
    }
}
