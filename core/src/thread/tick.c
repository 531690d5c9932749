/* SPDX-License-Identifier: MIT */
#include "tick.h"

#include "../arena/limit.h"
#include "../arena/purge.h"
#include "../settings/conf.h"
#include "chains.h"
#include "chance.h"
#include "delay.h"
#include "emptied.h"
#include "sampling.h"
#include "held.h"
#include "stack.h"
#include "tray.h"

/* A heap whose thread calls after a pause of IDLE_MS or more is idle, until BUSY_CALLS of its ticks
 * came less than BUSY_MS after the tick before. */
#define IDLE_MS 50
#define BUSY_MS 5
#define BUSY_CALLS 32u

/* Ticks of a busy thread after which its lists become twice as long. */
#define LENGTHEN_TICKS 4u

/* Slots that are handed out between two looks at the clock, at most; as many as a list has, else. */
#define UNTIL_TICK_MOST 512u

/* Free pages leave a heap's stacks at the first look after so long (ms), and looks are as far
 * apart; how often (ms) housekeeping is done. */
#define STACK_AGE_MS 500
#define HOUSE_MS 10

/* So many free pages in all arenas together make the lists short. */
#define HOUSE_WAITING_BYTES (2 * MiB)

/* Initialised data, so that the start writes to a page that the loader has written to already. */
static struct heaps heaps __attribute__((section(".data.heaps"))) = {.kept_house_ms = 0};

/* STACK_AGE_MS, or a sixteenth of the time that free memory may stay resident at all if that is
 * less. */
static uint64_t stack_age_ms(void)
{
    long decay_ms = option(OPTION_dirty_decay_ms);
    return decay_ms < 0 ? STACK_AGE_MS : size_min(STACK_AGE_MS, (size_t)decay_ms / 16 + 1);
}

/* Takes the free pages of heaps whose threads have not looked at the clock for long: they sleep, or
 * need nothing. */
static void rob_heaps_at_rest(uint64_t now_ms)
{
    uint64_t age_ms = stack_age_ms();
    if (now_ms < atomic_get(&heaps.robbed_ms) + age_ms / 4) {
        return;
    }
    atomic_set(&heaps.robbed_ms, now_ms);
    for (struct heap *at = atomic_get_acquire(&heaps.all); at != NULL; at = at->next) {
        if (heap_is_at_rest(at, now_ms, age_ms) &&
            atomic_get(&at->stack_pages) > atomic_get(&at->robbed_pages)) {
            stack_rob(at);
        }
    }
}

static void keep_house(uint64_t now_ms, bool may_call_hooks)
{
    if (os_refuses_changes()) {
        return; /* nothing can be given back by this thread */
    }
    uint64_t last = atomic_get(&heaps.kept_house_ms);
    if (now_ms < last + HOUSE_MS || !atomic_replace(&heaps.kept_house_ms, &last, now_ms) ||
        last == 0) {
        return; /* done, somebody else does it, or the program has just begun */
    }
    rob_heaps_at_rest(now_ms);
    trays_empty();
    emptied_tick(now_ms, stack_age_ms());
    if (option(OPTION_dirty_decay_ms) > 0) {
        held_release_since((uint32_t)(now_ms - (uint64_t)option(OPTION_dirty_decay_ms)));
    }
    limit_tick(now_ms);
    size_t dirty = 0;
    for (unsigned i = 0; i < arena_count(); i++) {
        dirty += arena_tick(arena_at(i), now_ms);
        if (!option(OPTION_retain)) {
            arena_unmap_free_regions(arena_at(i));
        }
    }
    if (may_call_hooks) {
        directs_tick(now_ms);
    }
    atomic_set(&heaps.is_waiting, dirty << os_page_shift > HOUSE_WAITING_BYTES);
}

/* Whether the thread calls rarely. */
static bool heap_is_idle(struct heap *heap, uint64_t elapsed_ms)
{
    if (elapsed_ms >= IDLE_MS) {
        heap->busy_calls = 0;
        return true;
    }
    if (heap->list_max != LIST_MAX_IDLE) {
        return false;
    }
    heap->busy_calls = (uint16_t)(heap->busy_calls + (elapsed_ms < BUSY_MS));
    return heap->busy_calls < BUSY_CALLS;
}

/* Whether much free memory waits to go back to the kernel, somewhere. */
static bool heap_is_waiting(struct heap *heap)
{
    return atomic_get(&heaps.is_waiting) || heap->released_ms == atomic_get(&heaps.kept_house_ms) ||
           atomic_get(&heap->stack_pages) << os_page_shift > WAITING_BYTES;
}

/* Once in so many ticks a thread looks at what it frees. */
#define WAY_TICKS 8u

/* Blocks that the program was given out of lists; what else comes into them or leaves them does not count. */
static uint64_t heap_listed_given(struct heap *heap)
{
    uint64_t given = 0;
    for (unsigned class = CLASSES; class < LIST_CLASSES; class ++) {
        given += heap->puts[class] - magazine_count(heap, class);
    }
    return given;
}

/* Sets the limits of lists of blocks, and chooses the way of malloc: if at least a sixteenth of the calls ask for blocks of pages, the one
 * for slots and blocks alike, which has no branch to be foretold. */
static void heap_look_at_lists(struct heap *heap)
{
    if (++heap->way_ticks % WAY_TICKS != 0) {
        return;
    }
    lists_look(heap);
    uint64_t given = heap_listed_given(heap);
    bool is_mixed =
        heap->is_private && 16 * (given - heap->listed_given) >= WAY_TICKS * heap->list_max;
    heap_set_way(heap, is_mixed);
    heap->listed_given = given;
}

/* Large blocks that the program was given, from private stacks or elsewhere. */
static uint64_t heap_blocks_given(struct heap *heap)
{
    uint64_t given = heap_listed_given(heap);
    for (unsigned class = 0; class < LARGE_CLASSES; class ++) {
        given += heap->large_counts[class];
    }
    return given;
}

static bool heap_uses_medium(struct heap *heap)
{
    return heap->classes_used >> SMALL_CLASSES != 0;
}

/* So many pages come into the stacks for each block that a thread frees while it clears up, at least. */
#define CLEARED_PAGES 4u

/* A thread that does so in so many ticks in a row clears up. Where sizes are mixed, chance does it in one of a
 * hundred. */
#define CLEARED_TICKS 4u

/* Whether in the last ticks much came into the stacks, and the program was hardly given any block. */
static bool heap_gives_up_blocks(struct heap *heap)
{
    size_t pages = atomic_get(&heap->stack_pages);
    size_t came = pages - heap->stack_pages_before;
    bool has_grown = (ptrdiff_t)came >= (ptrdiff_t)(CLEARED_PAGES * heap->pace);
    uint64_t given = has_grown ? heap_blocks_given(heap) : 0;
    bool gives_up = has_grown && 16 * (given - heap->blocks_given) < heap->pace;
    heap->stack_pages_before = pages;
    heap->blocks_given = given;
    heap->giving_up_ticks = gives_up ? heap->giving_up_ticks + 1 : 0;
    return heap->giving_up_ticks >= CLEARED_TICKS;
}

/* Slots and blocks after which a thread looks at how many medium slots came back. One that clears up looks sooner. If at
 * least half of them did so, and no fewer at the looks before until GIVEN_UP slots had come back, more than those of a
 * request, it clears up. Who did that, and took as much again, has larger requests: twice as many have to come back
 * from then on, up to so many doublings, until it pauses. */
#define LOOK_AFTER 512u
#define LOOK_SOON LIST_MAX_WAITING
#define GIVEN_UP (LOOK_AFTER / 2)
#define GIVEN_UP_DOUBLINGS_MOST 2u

/* Whether the program gives up medium slots, beyond those that it was given. */
static bool heap_gives_up_slots(struct heap *heap)
{
    heap->since_look += heap->pace;
    if (heap->since_look < (heap->clears_up ? LOOK_SOON : LOOK_AFTER)) {
        return false;
    }
    int64_t back = 0;
    for (uint64_t left = heap->classes_used >> SMALL_CLASSES; left != 0; left &= left - 1) {
        unsigned class = SMALL_CLASSES + (unsigned)__builtin_ctzl(left);
        const struct class_counts *counts = &heap->counts[class];
        back += (int64_t)(counts->returned - counts->handed + magazine_count(heap, class));
    }
    uint64_t classes = heap->classes_used >> SMALL_CLASSES;
    if (classes != heap->classes_looked) { /* what new ones have is of other times */
        heap->classes_looked = classes;
        heap->slots_back = back;
        heap->since_look = 0;
        return false;
    }
    int64_t came = back - heap->slots_back;
    bool do_come = 2 * came >= (int64_t)heap->since_look;
    heap->slots_came = do_come ? heap->slots_came + came : 0;
    bool gives_up = do_come && heap->slots_came >= GIVEN_UP << heap->given_up_doublings;
    if (gives_up) {
        heap->gave_up = true;
    } else if (heap->gave_up && -2 * came >= (int64_t)heap->since_look) {
        heap->gave_up = false;
        if (heap->given_up_doublings < GIVEN_UP_DOUBLINGS_MOST) {
            heap->given_up_doublings++;
        }
    }
    heap->slots_back = back;
    heap->since_look = 0;
    return gives_up;
}

/* A thread may be clearing up before it sleeps. What it holds then nobody else could take: the private stacks
 * become public, and the magazines are empty at each tick, which come soon; of slabs with many slots, each that
 * stays in one keeps a whole slab. */
static bool heap_clears_up(struct heap *heap)
{
    if (!heap_uses_medium(heap) && !heap_uses_blocks(heap)) {
        return false; /* it would touch a page of the heap that a thread with small blocks does not need */
    }
    bool gives_up_blocks = heap_gives_up_blocks(heap);
    heap->clears_up = heap_gives_up_slots(heap) || gives_up_blocks;
    if (!heap->clears_up) {
        return false;
    }
    stack_set_private(heap, false);
    for (uint64_t left = heap->classes_used >> SMALL_CLASSES; left != 0; left &= left - 1) {
        magazine_empty(heap, SMALL_CLASSES + (unsigned)__builtin_ctzl(left));
    }
    return true;
}

static void heap_set_pace(struct heap *heap, uint32_t pace)
{
    heap->pace = (uint16_t)pace;
    heap_set_until_tick(heap, (int32_t)pace);
    heap_set_alarm(heap);
}

/* How long the lists are, and how soon the clock is read again. */
static void heap_set_lists(struct heap *heap, uint64_t elapsed_ms)
{
    lists_count(heap);
    if (heap_is_idle(heap, elapsed_ms)) {
        if (heap->list_max != LIST_MAX_IDLE) {
            heap_return_lists(heap);
        }
        stack_set_private(heap, false);
        if (heap_uses_medium(heap)) {
            heap->gave_up = false;
            heap->given_up_doublings = 0;
        }
        heap_set_list_max(heap, LIST_MAX_IDLE, false);
        heap_set_pace(heap, 0);
        return;
    }
    bool is_busy = elapsed_ms < BUSY_MS && heap->list_max >= LIST_MAX_WAITING;
    bool clears_up = heap_clears_up(heap);
    if (!clears_up) {
        stack_set_private(heap, is_busy && heap_uses_blocks(heap));
    }
    if (!is_busy || heap_is_waiting(heap)) {
        heap_set_list_max(heap, LIST_MAX_WAITING, is_busy);
        heap->busy_calls = 0;
    } else if (++heap->busy_calls >= LENGTHEN_TICKS) {
        heap_set_list_max(heap, (uint32_t)size_min(2u * heap->list_max, LIST_MAX_BUSY), true);
        heap->busy_calls = 0;
    }
    heap_set_pace(heap, clears_up ? LIST_MAX_WAITING
                                  : (uint32_t)size_min(heap->list_max, UNTIL_TICK_MOST));
    if (MW_PAGEMAP_LISTS) {
        heap_look_at_lists(heap);
    }
}

static void interval_load(void)
{
    long bytes = conf_value(conf_at(CONF_stats_interval));
    interval.bytes = bytes >= 0 && !MW_IN_LIBC ? size_max((size_t)bytes, 1) : 0;
    atomic_set(&interval.until, (int64_t)interval.bytes);
}

static NOINLINE void heap_tick(struct heap *heap)
{
    check(!heap_is_anothers(heap));
    if (heap_until_tick(heap) >= 0) { /* that was a candidate, and the clock is not due */
        heap_set_until_tick(heap, heap_until_tick(heap));
        return;
    }
    heap_follow_profile(heap);
    uint64_t before_ms = atomic_get(&heap->tick_ms);
    uint64_t now_ms = clock_look();
    if (unlikely(heap_is_sampling(heap))) {
        sampler_follow_clock(&heap->sampler, now_ms);
    }
    atomic_set(&heap->tick_ms, now_ms);
    delay_follow_crowd(heap);
    uint64_t elapsed_ms = before_ms != 0 ? now_ms - before_ms : 0;
    if (before_ms == 0) {
        heap->settled_ms = now_ms;
    }
    if (before_ms == 0 || elapsed_ms >= IDLE_MS) {
        heap->awake_slots = 0;
    }
    heap->awake_slots += heap_is_steady(heap) ? 0 : heap->pace;
    heap_expect_sent(heap, heap->pace);
    /* At the first tick too: a thread that lives for a short time may have no other. */
    if (elapsed_ms != 0 || before_ms == 0) {
        uint64_t age_ms = stack_age_ms();
        if (now_ms - heap->settled_ms >= age_ms) {
            heap->settled_ms = now_ms;
            heap_settle(heap, (uint32_t)(now_ms - age_ms));
        }
        keep_house(now_ms, heap->thread != NULL); /* the shared heap is locked */
    }
    heap_set_lists(heap, elapsed_ms);
    check(heap->until_tick >= 0 && heap_until_tick(heap) <= (int32_t)UNTIL_TICK_MOST);
    check(heap->list_max == LIST_MAX_IDLE ||
          (heap->list_max >= LIST_MAX_WAITING && heap->list_max <= LIST_MAX_BUSY));
    if (unlikely(interval.bytes != 0) && heap->thread != NULL) {
        interval_note(heap); /* the last thing: what it calls may allocate */
    }
}

/* --- The purge thread ------------------------------------------------------------------------- */

/* While nothing is free anywhere, nor grows old in some other way, a look in so many steps of the decay is
 * enough: what comes free meanwhile counts as if it had come right after the look before, see decay.c. */
#define PURGE_THREAD_REST_STEPS 8u

/* And no more often than this, however short the decay: what comes free meanwhile stays for so long. */
#define PURGE_THREAD_REST_MS 100u

/* At each look that finds nothing again, twice as long, so many times: up to the whole of the decay. After that it
 * sleeps until something becomes free. */
#define PURGE_THREAD_DOUBLINGS 2u

/* A time to wait for (ms), of os_wait. */
#define UNTIL_NEWS 0u

/* Of a thread in the strict mode of seccomp there is no news. */
#define STRICT_REST_MS 1000u

static_assert(PURGE_THREAD_REST_STEPS << PURGE_THREAD_DOUBLINGS <= DECAY_STEPS,
              "what comes free goes within the time of its decay");

/* Whether all pages are in use or belong to the kernel. Heaps change while this looks at them. */
static bool house_is_empty(void)
{
    if (option(OPTION_muzzy_decay_ms) != 0 || limit_is_watched() ||
        atomic_get(&explicit_count) != 0 || emptied_may_be_there() || held_has_any()) {
        return false;
    }
    for (unsigned i = 0; i < arena_count(); i++) {
        struct arena *arena = arena_at(i);
        if (arena_has_free(arena) || tray_has_slots(arena) || tray_has_pages(arena) ||
            depot_has_batches(arena)) {
            return false;
        }
    }
    for (struct heap *at = atomic_get_acquire(&heaps.all); at != NULL; at = at->next) {
        if (atomic_get(&at->stack_pages) > atomic_get(&at->robbed_pages) &&
            !(heap_is_at_rest(at, clock_ms(), stack_age_ms()) && stack_has_no_cells(at))) {
            return false;
        }
    }
    check(arena_count() > 0);
    return true;
}

/* The shortest of any arena; below 0 if no free memory goes back. */
static long shortest_decay_ms(void)
{
    long shortest = option(OPTION_dirty_decay_ms);
    for (unsigned i = 0; i < arena_count(); i++) {
        long of_arena = arena_dirty_decay_ms(arena_at(i));
        bool is_shorter = of_arena >= 0 && (shortest < 0 || of_arena < shortest);
        shortest = is_shorter ? of_arena : shortest;
    }
    return shortest;
}

/* `empty_looks` counts those in a row that found nothing. The last of these rests can be ended by who frees: what came
 * free unseen by then is found after it, and from then on the thread sleeps until there is news. */
static uint32_t purge_thread_pause_ms(uint32_t *empty_looks)
{
    long decay_ms = shortest_decay_ms();
    size_t pause_ms = decay_ms >= 0 ? (size_t)decay_ms / DECAY_STEPS : 1000;
    bool has_rested = *empty_looks >= PURGE_THREAD_DOUBLINGS;
    bool was_awaited =
        atomic_exchange_explicit(&free_news.is_awaited, has_rested, memory_order_seq_cst);
    if (!house_is_empty()) {
        *empty_looks = 0;
        atomic_set(&free_news.is_awaited, false);
        return (uint32_t)size_max(pause_ms, HOUSE_MS);
    }
    if (was_awaited && has_rested) {
        for (unsigned i = 0; i < arena_count(); i++) {
            arena_begin_decay_anew(arena_at(i));
        }
        return os_some_are_strict() ? STRICT_REST_MS : UNTIL_NEWS;
    }
    size_t rest_ms = size_max(pause_ms * PURGE_THREAD_REST_STEPS, PURGE_THREAD_REST_MS);
    rest_ms = decay_ms >= 0 ? rest_ms << *empty_looks : pause_ms;
    *empty_looks += !has_rested;
    return (uint32_t)rest_ms;
}

/* Hooks that it calls may have made a heap of its own. */
static bool purge_thread_is_last(void)
{
    return atomic_get(&purge_thread.may_be_last) &&
           atomic_get_ordered(&heaps.in_use) == (purge_thread_has_heap() ? 1 : 0);
}

static void purge_thread_heap_ended(void)
{
    if (atomic_sub(&heaps.in_use, 1) <= 2 && unlikely(option(OPTION_purge_thread))) {
        atomic_set(&purge_thread.may_be_last, true);
        free_news_tell();
    }
}

static void *purge_thread_run(void *argument)
{
    (void)argument;
    uint64_t last_ms = clock_look();
    uint32_t empty_looks = 0;
    bool is_last = false;
    while (option(OPTION_purge_thread)) {
        uint32_t news = atomic_get_acquire(&free_news.count); /* pairs with free_news_tell */
        is_last = purge_thread_is_last();
        if (is_last) {
            break;
        }
        os_wait(&free_news.count, news, purge_thread_pause_ms(&empty_looks));
        if (atomic_get(&free_news.count) != news) {
            empty_looks = 0; /* else who takes and frees again and again would wake it each time */
        }
        uint64_t now_ms = clock_look();
        keep_house(now_ms, true);
        limit_look_at_cpus(now_ms);
        atomic_add(&purge_thread.runs, 1);
        atomic_add(&purge_thread.ms, now_ms - last_ms);
        last_ms = now_ms;
    }
    atomic_set_ordered(&purge_thread.is_started, false); /* pairs with purge_thread_start */
    if (!purge_thread_is_last()) {
        purge_thread_want(); /* perhaps somebody wants it again just now */
    } else if (is_last) {
        os_set_signal_mask(atomic_get(&purge_thread.mask)); /* exit() may run in this thread */
    }
    return NULL;
}

static uint64_t purge_thread_interval_ns(void)
{
    uint64_t runs = atomic_get(&purge_thread.runs);
    return runs != 0 ? atomic_get(&purge_thread.ms) * 1000000 / runs : 0;
}

static void purge_thread_start(void)
{
    if (atomic_exchange_explicit(&purge_thread.is_started, true, memory_order_seq_cst) ||
        libc_start_thread(purge_thread_run, &purge_thread.mask)) {
        return;
    }
    atomic_set(&purge_thread.is_started, false); /* the next heap tries again */
    if (!atomic_exchange_explicit(&purge_thread.is_told, true, memory_order_relaxed)) {
        log_warn("purge_thread: the system did not start a thread; memory goes back with calls");
    }
}

/* Threads may be started when the libraries are loaded, which process_loaded says. */
static void purge_thread_want(void)
{
    if (unlikely(option(OPTION_purge_thread)) && atomic_get(&purge_thread.may_start)) {
        purge_thread_start();
    }
}
