/* SPDX-License-Identifier: MIT */
#include "count.h"

static struct heap *thread_count(void)
{
    struct heap *heap = thread_enter();
    if (heap == &heap_shared) {
        thread_leave(heap);
        return NULL;
    }
    if (!heap->is_counting) {
        heap->allocated = 0;
        heap->deallocated = 0;
        heap->held_before = 0;
        heap->held_most = 0;
        heap->is_counting = true;
        heap_self = HEAP_NONE;
    }
    return heap;
}

static void thread_count_resize(size_t old_size, size_t new_size)
{
    struct heap *heap = heap_own;
    if (heap > HEAP_FREES(FREES_WITHOUT_HEAP) && heap->is_counting) {
        heap->deallocated += old_size;
        heap_count_bytes(heap, new_size);
    }
}
