/* SPDX-License-Identifier: MIT
 *
 * What a program may ask of the allocator at run time.
 */
#include "report.h"

#include "../arena/purge.h"
#include "../os/memcheck.h"
#include "../thread/emptied.h"
#include "../thread/held.h"
#include "../thread/heaps.h"
#include "../thread/stack.h"
#include "../thread/tray.h"
#include "../thread/tick.h"

/* glibc's numbers; musl's malloc.h does not have them. */
#define M_MXFAST 1
#define M_TRIM_THRESHOLD (-1)
#define M_TOP_PAD (-2)
#define M_MMAP_THRESHOLD (-3)
#define M_MMAP_MAX (-4)
#define M_CHECK_ACTION (-5)
#define M_PERTURB (-6)
#define M_ARENA_TEST (-7)
#define M_ARENA_MAX (-8)

/* Gives free memory back to the kernel, all but `keep_pages` per arena. */
static size_t purge_all(size_t keep_pages, bool may_call_hooks)
{
    for (struct heap *at = atomic_get_acquire(&heaps.all); at != NULL; at = at->next) {
        stack_rob(at);
    }
    trays_empty();
    size_t purged = emptied_purge_all() >> os_page_shift;
    for (unsigned i = 0; i < arena_count(); i++) {
        purged += arena_purge(arena_at(i), keep_pages);
        if (keep_pages == 0) {
            arena_unmap_free_regions(arena_at(i));
        }
    }
    if (keep_pages == 0 && may_call_hooks) {
        directs_purge();
    }
    return purged;
}

/* Takes back what waits, and what the heaps hold that is free. The calling thread's heap, entered. */
static struct heap *enter_and_collect(void)
{
    memcheck_enter();
    if (MW_TRACK) {
        tracked_release_all();
    }
    retired_release_all();
    held_release_all();
    heaps_empty_shared();
    struct heap *heap = thread_enter();
    heap_collect(heap);
    return heap;
}

static void leave_collected(struct heap *heap)
{
    thread_leave(heap);
    memcheck_leave();
}

void mw_collect(bool force)
{
    struct heap *heap = enter_and_collect();
    if (force) {
        purge_all(0, heap->thread != NULL);
    } else {
        keep_house(clock_look(), heap->thread != NULL);
    }
    leave_collected(heap);
}

int mw_malloc_trim(size_t pad)
{
    struct heap *heap = enter_and_collect();
    size_t purged = purge_all(pad >> os_page_shift, heap->thread != NULL);
    leave_collected(heap);
    return purged != 0;
}

int mw_mallopt(int param, int value)
{
    process_init();
    switch (param) {
    case M_TRIM_THRESHOLD:
        /* How much free memory may stay at the top of the heap: here time decides. -1 means never,
         * in glibc and here. */
        if (value == -1 || option(OPTION_dirty_decay_ms) < 0) {
            option_set(OPTION_dirty_decay_ms,
                       value == -1 ? -1 : option_at_start(OPTION_dirty_decay_ms));
            free_news_tell();
        }
        return 1;
    case M_PERTURB:
        /* New and freed blocks are filled, with our own bytes: what counts is that they are not
         * what they were. */
        option_set(OPTION_junk, value != 0);
        if (value != 0) {
            thread_stay_slow();
        }
        return 1;
    case M_ARENA_MAX:
        /* Bounds the arenas that are still to be made. */
        if (value > 0 && value <= (int)option_maximum(OPTION_arenas)) {
            option_set(OPTION_arenas, value); /* the cgroup has no say in it any more */
        }
        return value >= 0 && thread_limit_arenas((unsigned)value);
    case M_MMAP_THRESHOLD:
    case M_MMAP_MAX:
    case M_TOP_PAD:
    case M_ARENA_TEST:
    case M_CHECK_ACTION:
    case M_MXFAST:
        return 1; /* says how glibc's own structures are cut: nothing here corresponds to it */
    default:
        return 0;
    }
}

mw_misuse_handler mw_set_misuse_handler(mw_misuse_handler handler)
{
    return fault_set_handler(handler);
}
