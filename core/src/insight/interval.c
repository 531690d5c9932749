/* SPDX-License-Identifier: MIT
 *
 * stats_interval: how much the program was given since a thread's last tick, from the counters that there are
 * anyway, and what happens when that amounts to the interval. Nothing of it is on a path of malloc or free: a
 * tick that finds the option off reads one word.
 *
 * What lies in lists of a heap counts as given; when the list is returned the heap's sum falls, and does not
 * count again until it is higher than ever.
 */
#include "../thread/tick.h"
#include "stats_text.h"

static uint64_t bytes_given(struct heap *heap)
{
    uint64_t bytes = 0;
    for (unsigned class = 1; class < CLASSES; class ++) {
        const struct class_counts *counts = &heap->counts[class];
        bytes += (counts->handed + heap->puts[class] - counts->returned) * class_size(class);
    }
    for (unsigned class = CLASSES; class < LIST_CLASSES; class ++) {
        unsigned page_class = page_class_of_block(class);
        if (page_class < PAGE_CLASSES && page_class_is_listed(page_class)) {
            uint64_t blocks = heap->puts[class] - magazine_count(heap, class);
            bytes += blocks * (page_class_pages(page_class) << os_page_shift);
        }
    }
    for (unsigned class = 0; class < LARGE_CLASSES; class ++) {
        bytes += heap->large_counts[class] * (large_class_pages(class) << os_page_shift);
    }
    return bytes;
}

/* Of all arenas. Others count meanwhile: it is the sum of some moment. */
__attribute__((no_sanitize("thread"))) static uint64_t bytes_given_directly(void)
{
    uint64_t bytes = 0;
    for (unsigned i = 0; i < arenas_ever(); i++) {
        struct direct *direct = direct_find(arena_ever_at(i));
        for (unsigned class = 1; direct != NULL && class < CLASSES; class ++) {
            bytes += atomic_peek(&direct->blocks[class]) * class_size(class);
        }
        for (unsigned class = 0; direct != NULL && class < LARGE_CLASSES; class ++) {
            bytes += atomic_peek(&direct->large_blocks[class]) *
                     (large_class_pages(class) << os_page_shift);
        }
    }
    return bytes;
}

/* Whether these bytes complete an interval. One call tells of all that they complete. */
static bool interval_passes(uint64_t bytes)
{
    int64_t left = atomic_sub(&interval.until, (int64_t)bytes) - (int64_t)bytes;
    if (left > 0 || left + (int64_t)bytes <= 0) {
        return false; /* not yet, or another thread has come there and begins the next one */
    }
    uint64_t intervals = (uint64_t)-left / interval.bytes + 1;
    atomic_add(&interval.until, (int64_t)(intervals * interval.bytes));
    return true;
}

static void note_given(struct heap *heap)
{
    uint64_t given = bytes_given(heap);
    uint64_t bytes = given > heap->interval_bytes ? given - heap->interval_bytes : 0;
    heap->interval_bytes += bytes;
    uint64_t directly = bytes_given_directly();
    uint64_t before = atomic_get(&interval.direct_bytes);
    if (directly > before && atomic_replace(&interval.direct_bytes, &before, directly)) {
        bytes += directly - before;
    }
    if (bytes == 0 || !interval_passes(bytes) ||
        atomic_exchange_explicit(&interval.is_printing, true, memory_order_acquire)) {
        return;
    }
    stats_print_to((struct stats_target){NULL, NULL}, conf_text(conf_at(CONF_stats_interval_opts)));
    atomic_set_release(&interval.is_printing, false); /* pairs with the exchange above */
}

static void (*const interval_note)(struct heap *) = note_given;
