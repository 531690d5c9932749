/* SPDX-License-Identifier: MIT
 *
 * What musl asks of the allocator inside it (src/malloc/mallow in its tree, see packaging/musl). malloc,
 * free and realloc stay in members of their own and end in a jump to here, so that a static program may
 * bring its own, and one that never frees keeps musl's small malloc. All names are hidden, but those of
 * the C library's interface and mw_collect.
 */
#include "../../include/mallow.h"
#include "../thread/thread.h"

#include <errno.h>

#define EXPORTED __attribute__((visibility("default")))
#define OF_LIBC __attribute__((visibility("hidden")))
#define OF_LIBC_AS(target) __attribute__((alias(#target), visibility("hidden")))

void *__libc_malloc_impl(size_t size) OF_LIBC_AS(mw_malloc);
void *__libc_calloc_impl(size_t count, size_t size) OF_LIBC_AS(mw_calloc);
void *__libc_realloc(void *block, size_t size) OF_LIBC_AS(mw_realloc);
void __libc_free(void *block) OF_LIBC_AS(mw_free);

/* The loader says so: whether the program brings a malloc, an aligned_alloc. */
extern OF_LIBC int __malloc_replaced;
extern OF_LIBC int __aligned_alloc_replaced;

/* memalign and posix_memalign are made of it, and what they return is given to the program's free: that
 * must be ours. */
EXPORTED void *aligned_alloc(size_t alignment, size_t size)
{
    if (unlikely(__malloc_replaced && !__aligned_alloc_replaced)) {
        errno = ENOMEM;
        return NULL;
    }
    return alignment == 0 ? mw_malloc(size) : mw_aligned_alloc(alignment, size);
}

size_t malloc_usable_size(void *block)
    __attribute__((alias("mw_malloc_usable_size"), visibility("default")));

/* The loader has pieces of pages left over between the parts of programs. We take whole pages only. */
OF_LIBC void __malloc_donate(char *start, char *end)
{
    (void)start, (void)end;
}

/* -1: before a fork of a process with threads; 0: after it in the parent; 1: in the child. */
OF_LIBC void __malloc_atfork(int when)
{
    if (when < 0) {
        fork_before();
    } else if (when == 0) {
        fork_in_parent();
    } else {
        fork_in_child();
    }
}

/* --- Threads ---------------------------------------------------------------------------------- */

/* What the first word of a thread begins with; the second begins with 0. */
extern const struct heap __malloc_no_heap __attribute__((alias("heap_none"), visibility("hidden")));

/* The thread ends, and its destructors have run. */
OF_LIBC void __malloc_thread_ended(void)
{
    if (thread_has_heap()) {
        thread_ended(heap_own);
    }
}

/* The loader has copied the words to the first thread's final place. */
OF_LIBC void __malloc_thread_moved(void)
{
    if (thread_has_heap()) {
        heap_own->thread = os_thread_id();
    }
}
