/* SPDX-License-Identifier: MIT */
#include "strict.h"

static bool own_heap_is_strict(void)
{
    struct heap *heap = heap_own;
    return heap > HEAP_FREES(FREES_WITHOUT_HEAP) && heap->is_strict;
}

static bool (*const os_thread_is_strict)(void) = own_heap_is_strict;

/* A signal may have come while the thread was about to have its heap, or was anywhere else with a lock. */
static bool thread_may_attach(void)
{
    return heap_own != HEAP_ENDED && !fork_visit_locks(lock_is_mine);
}

static void thread_note_strict(bool begins)
{
    if (begins && heap_own <= HEAP_FREES(FREES_WITHOUT_HEAP) && thread_may_attach()) {
        thread_leave(thread_enter());
    }
    struct heap *heap = heap_own;
    if (heap <= HEAP_FREES(FREES_WITHOUT_HEAP)) {
        return;
    }
    if (begins) {
        os_note_strict();
        free_news_tell(); /* who sleeps until this thread wakes it looks by itself from now on */
        fork_visit_locks(lock_pass_wake_on);
    }
    heap->is_strict = begins;
}
