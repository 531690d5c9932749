/* SPDX-License-Identifier: MIT
 *
 * The leak check of the debug build, at the end of the program: which live blocks nothing points
 * to. A word that has the address of a block, or of a byte inside, counts as a pointer to it.
 *
 *   roots      the memory of the program (leak_roots.h), and blocks that are not tracked
 *   live       what roots point to, and what these blocks point to
 *   indirect   leaked blocks that leaked blocks point to
 *   edge       a leaked block of one call stack points to one of another: so a reader who leaves out what
 *              is known can leave out what is lost by it
 *
 * Other threads go on meanwhile; what only a register of one of them points to is taken for a leak.
 * Memory is read by the kernel, so that it may vanish. The tables of tracked blocks are memory too:
 * they hold addresses inverted (track.h).
 */
#include "leak_roots.h"
#include "ordered.h"
#include "report.h"

#include "../os/fault.h"

#include <string.h>

struct leak_block {
    uintptr_t start;
    size_t size;
    uint32_t calls; /* that allocated it */
    uint8_t mark;   /* enum leak_mark */
};

enum leak_mark { LEAK_UNSEEN, LEAK_LIVE, LEAK_INDIRECT };

struct leak_heap {
    struct leak_block *blocks;
    size_t count;
    size_t most;
    uint32_t *pending; /* blocks whose content is to be read */
    size_t pending_count;
    size_t source; /* the leaked block whose content is read */
    size_t cause;  /* the one that was begun with, which is not found by what it points to itself */
    /* A hash table, of EDGES places: calls of the one and of the other block; 0: none. */
    uint64_t *edges;
    size_t edge_count;
    struct leak_roots roots;
    uint8_t mark;    /* what is found gets it */
    int page_states; /* /proc/thread-self/pagemap; below 0: it cannot be read */
    uintptr_t stack; /* from here upwards the calling thread's stack is the program's */
};

/* --- Tables ----------------------------------------------------------------------------------- */

/* Places of the table, of which half are used at most: what needs more is told without edges. */
#define EDGES_LOG2 16u
#define EDGES ((size_t)1 << EDGES_LOG2)
#define EDGES_MOST (EDGES / 2)

static bool count_block(struct track *track, void *context)
{
    (void)track;
    ++*(size_t *)context;
    return true;
}

static bool add_block(struct track *track, void *context)
{
    struct leak_heap *heap = context;
    uint64_t word = atomic_get(&track->word);
    if (track_state(word) == TRACK_LIVE && heap->count < heap->most) {
        uintptr_t start = track_block(track);
        struct extent *extent = pagemap_find((void *)start);
        heap->blocks[heap->count++] =
            (struct leak_block){start, track_size(word), atomic_get(&track->allocated_stack), 0};
        if (!extent_is_slab(extent)) {
            leak_roots_exclude(&heap->roots, extent->start, extent_end(extent));
        }
    }
    return true;
}

static void exclude_table(struct leak_heap *heap, const void *table, size_t size)
{
    leak_roots_exclude(&heap->roots, (uintptr_t)table, (uintptr_t)table + size);
}

static bool leak_heap_open(struct leak_heap *heap)
{
    size_t known = 0, regions = 0;
    track_visit(count_block, &known);
    for (unsigned i = 0; i < arena_count(); i++) {
        lock_take(&arena_at(i)->lock);
        for (struct region *at = arena_at(i)->regions; at != NULL; at = at->next) {
            regions++;
        }
        lock_release(&arena_at(i)->lock);
    }
    heap->most = known + 1024;
    heap->blocks = leak_map(heap->most, sizeof *heap->blocks);
    heap->pending = leak_map(heap->most, sizeof *heap->pending);
    heap->edges = leak_map(EDGES, sizeof *heap->edges);
    if (heap->blocks == NULL || heap->pending == NULL || heap->edges == NULL ||
        !leak_roots_open(&heap->roots, known + regions + 1024)) {
        log_warn("leak_check: no memory for the check");
        return false;
    }
    track_visit(add_block, heap);
    for (unsigned i = 0; i < arena_count(); i++) {
        lock_take(&arena_at(i)->lock);
        for (struct region *at = arena_at(i)->regions; at != NULL; at = at->next) {
            leak_roots_exclude(&heap->roots, at->start, at->start + at->size);
        }
        lock_release(&arena_at(i)->lock);
    }
    exclude_table(heap, heap->blocks, heap->most * sizeof *heap->blocks);
    exclude_table(heap, heap->pending, heap->most * sizeof *heap->pending);
    exclude_table(heap, heap->edges, EDGES * sizeof *heap->edges);
    sort_by_first_word(heap->blocks, heap->count, sizeof *heap->blocks);
    return true;
}

/* --- Marking ---------------------------------------------------------------------------------- */

static void edge_add(struct leak_heap *heap, uint32_t from, uint32_t to)
{
    uint64_t edge = (uint64_t)from << 32 | to;
    if (from == to || heap->edge_count > EDGES_MOST) {
        return;
    }
    size_t at = (edge * 0x9e3779b97f4a7c15u) >> (64 - EDGES_LOG2);
    while (heap->edges[at] != 0 && heap->edges[at] != edge) {
        at = (at + 1) % EDGES;
    }
    heap->edge_count += heap->edges[at] == 0;
    heap->edges[at] = edge;
}

/* Whether a word is a pointer to a block. new T[0] of a class with a destructor asks for the count alone, at the end of as
 * much as T's alignment is, and the program has a pointer to what would be behind it. */
static bool word_names(uintptr_t word, const struct leak_block *block)
{
    size_t distance = word - block->start;
    uint64_t count = 1;
    if (distance < size_max(block->size, 1)) {
        return true;
    }
    return distance == block->size && (distance == 8 || distance == 16) &&
           os_read_memory((char *)word - sizeof count, &count, sizeof count) && count == 0;
}

static void mark_word(struct leak_heap *heap, uintptr_t word)
{
    if (heap->count == 0 || word < heap->blocks[0].start) {
        return;
    }
    size_t at = find_before(heap->blocks, heap->count, sizeof *heap->blocks, word);
    struct leak_block *block = &heap->blocks[at];
    if (at == heap->count || !word_names(word, block)) {
        return;
    }
    if (heap->mark == LEAK_INDIRECT && block->mark != LEAK_LIVE) {
        edge_add(heap, heap->blocks[heap->source].calls, block->calls);
    }
    if (block->mark == LEAK_UNSEEN && at != heap->cause) {
        block->mark = heap->mark;
        heap->pending[heap->pending_count++] = (uint32_t)at;
    }
}

static void mark_words(struct leak_heap *heap, uintptr_t start, uintptr_t end)
{
    static uintptr_t words[2048]; /* one leak check at a time */
    start = align_up(start, sizeof *words);
    while (start + sizeof *words <= end) {
        /* No further than its page: the next one may be missing. */
        size_t size = size_min(end - start, sizeof words);
        if (!os_read_memory((void *)start, words, size & ~(sizeof *words - 1))) {
            size = size_min(end, align_up(start + 1, os_page_size)) - start;
            if (!os_read_memory((void *)start, words, size & ~(sizeof *words - 1))) {
                start += align_up(size, sizeof *words);
                continue;
            }
        }
        for (size_t i = 0; i < size / sizeof *words; i++) {
            mark_word(heap, words[i]);
        }
        start += align_up(size, sizeof *words);
    }
}

/* The kernel's words on pages, a bit each: in memory, and swapped out. */
#define PAGE_WAS_WRITTEN ((uint64_t)3 << 62)
#define PAGE_STATES 512u

/* What is larger is looked at by pages first: a reservation of many GiB would be read for minutes. */
#define SPARSE_RANGE (1 * MiB)

/* Up to PAGE_STATES pages: those that were never written hold no pointers. */
static void mark_pages(struct leak_heap *heap, uintptr_t start, uintptr_t end)
{
    static uint64_t states[PAGE_STATES];
    size_t count = (end - start) >> os_page_shift;
    bool known = os_read_at(heap->page_states, (start >> os_page_shift) * sizeof *states, states,
                            count * sizeof *states);
    size_t first = 0; /* of those that are to be read */
    for (size_t i = 0; i < count; i++) {
        if (known && (states[i] & PAGE_WAS_WRITTEN) == 0) {
            mark_words(heap, start + (first << os_page_shift), start + (i << os_page_shift));
            first = i + 1;
        }
    }
    mark_words(heap, start + (first << os_page_shift), end);
}

static void mark_range(struct leak_heap *heap, uintptr_t start, uintptr_t end)
{
    uintptr_t last = end & ~(os_page_size - 1);
    uintptr_t at = size_min(align_up(start, os_page_size), end);
    if (heap->page_states < 0 || end - start < SPARSE_RANGE) {
        mark_words(heap, start, end);
        return;
    }
    mark_words(heap, start, at);
    while (at < last) {
        uintptr_t stop = size_min(at + (PAGE_STATES << os_page_shift), last);
        mark_pages(heap, at, stop);
        at = stop;
    }
    mark_words(heap, at, end);
}

static void mark_pending(struct leak_heap *heap)
{
    while (heap->pending_count != 0) {
        heap->source = heap->pending[--heap->pending_count];
        struct leak_block *block = &heap->blocks[heap->source];
        mark_range(heap, block->start, block->start + block->size);
    }
}

/* What the blocks that are left point to; they are read one after the other. */
static void mark_indirect(struct leak_heap *heap)
{
    heap->mark = LEAK_INDIRECT;
    for (size_t i = 0; i < heap->count; i++) {
        if (heap->blocks[i].mark == LEAK_UNSEEN) {
            heap->cause = i;
            heap->pending[heap->pending_count++] = (uint32_t)i;
            mark_pending(heap);
        }
    }
}

static void mark_root(void *context, uintptr_t start, uintptr_t end)
{
    mark_range(context, start, end);
}

static void mark_slots(struct leak_heap *heap, struct extent *extent)
{
    for (uint32_t i = 0; i < extent->slab.capacity; i++) {
        uintptr_t slot = extent->start + (uintptr_t)i * extent->slab.slot_size;
        if (slot_number_is_held(extent, i) && track_find_around(extent, (void *)slot) == NULL) {
            mark_range(heap, slot, slot + extent->slab.slot_size);
        }
    }
}

/* Blocks that the program has asked an automatic arena for by its number are not tracked, and lie in regions, which are no
 * roots. Both locks are held: so none of them goes. */
static void mark_untracked_locked(struct leak_heap *heap, struct region *region)
{
    uintptr_t at = region->start;
    while (at < region->start + region->size) {
        struct extent *extent = pagemap_find((void *)at);
        require(extent != pagemap_nothing() && extent->start == at);
        at = extent_end(extent);
        bool is_direct = extent_state(extent) == EXTENT_ACTIVE && extent_is_direct(extent);
        if (is_direct && extent_is_slab(extent)) {
            mark_slots(heap, extent);
        } else if (is_direct && track_find_around(extent, (void *)extent->start) == NULL) {
            mark_range(heap, extent->start, extent_end(extent));
        }
    }
}

static void mark_untracked(struct leak_heap *heap)
{
    for (unsigned i = 0; i < arena_count(); i++) {
        struct arena *arena = arena_at(i);
        struct direct *direct = direct_find(arena);
        if (direct == NULL) {
            continue;
        }
        lock_take(&direct->lock);
        lock_take(&arena->lock);
        for (struct region *region = arena->regions; region != NULL; region = region->next) {
            mark_untracked_locked(heap, region);
        }
        lock_release(&arena->lock);
        lock_release(&direct->lock);
    }
}

/* --- Telling ---------------------------------------------------------------------------------- */

/* What one call stack leaked. */
struct leak {
    uintptr_t calls; /* first: they are sorted by it */
    size_t bytes;
    size_t count;
    size_t direct_count;
    size_t number; /* of its line in the report, from 1; 0: it has none */
};

#define LEAKS_TOLD 20u        /* in words */
#define LEAKS_REPORTED 10000u /* in the report */

/* Leaks by call stack, in the place of the table of ranges. */
static size_t leaks_by_calls(struct leak_heap *heap, struct leak *leaks, size_t most)
{
    size_t count = 0;
    for (size_t i = 0; i < heap->count && count < most; i++) {
        struct leak_block *block = &heap->blocks[i];
        if (block->mark != LEAK_LIVE) {
            leaks[count++] =
                (struct leak){block->calls, block->size, 1, block->mark == LEAK_UNSEEN, 0};
        }
    }
    sort_by_first_word(leaks, count, sizeof *leaks);
    size_t kept = 0;
    for (size_t i = 0; i < count; i++) {
        if (kept != 0 && leaks[kept - 1].calls == leaks[i].calls) {
            leaks[kept - 1].bytes += leaks[i].bytes;
            leaks[kept - 1].direct_count += leaks[i].direct_count;
            leaks[kept - 1].count++;
        } else {
            leaks[kept++] = leaks[i];
        }
    }
    return kept;
}

/* Whether leak is to be told before other: one that nothing points to is the cause of those that leaked
 * blocks point to. */
static bool leak_comes_before(const struct leak *leak, const struct leak *other)
{
    bool is_direct = leak->direct_count != 0;
    return is_direct == (other->direct_count != 0) ? leak->bytes > other->bytes : is_direct;
}

/* The leak to tell next, which is taken out by being told. */
static struct leak *leak_next(struct leak *leaks, size_t count)
{
    struct leak *first = NULL;
    for (size_t i = 0; i < count; i++) {
        if (leaks[i].count != 0 && (first == NULL || leak_comes_before(&leaks[i], first))) {
            first = &leaks[i];
        }
    }
    return first;
}

static size_t leak_number(const struct leak *leaks, size_t count, uint64_t calls)
{
    size_t at = find_before(leaks, count, sizeof *leaks, calls);
    check(at != count && leaks[at].calls == calls);
    return leaks[at].number;
}

/* All edges or none: a reader takes what has none for a leak of unknown cause. */
static void edges_tell(struct sink *report, const struct leak_heap *heap, const struct leak *leaks,
                       size_t count)
{
    if (heap->edge_count > EDGES_MOST || count > LEAKS_REPORTED) {
        return;
    }
    for (size_t i = 0; i < EDGES; i++) {
        if (heap->edges[i] != 0) {
            sink_print(report, "points %zu %zu\n", leak_number(leaks, count, heap->edges[i] >> 32),
                       leak_number(leaks, count, heap->edges[i] & UINT32_MAX));
        }
    }
}

static void leaks_tell(const struct leak_heap *heap, struct leak *leaks, size_t count)
{
    size_t bytes = 0, blocks = 0;
    for (size_t i = 0; i < count; i++) {
        bytes += leaks[i].bytes;
        blocks += leaks[i].count;
    }
    struct fault fault = {.kind = FAULT_LEAK, .call = "exit"};
    char sentence[128] = "";
    struct sink report;
    text_print_behind(sentence, sizeof sentence,
                      "leak of %zu bytes in %zu blocks, by %zu call stacks", bytes, blocks, count);
    log_warn("%s", sentence);
    bool has_report = fault_open(&fault, sentence, &report);
    struct leak *leak;
    for (size_t told = 0; told < LEAKS_REPORTED && (leak = leak_next(leaks, count)) != NULL;
         told++) {
        struct fault_stack stack = calls_kept((uint32_t)leak->calls);
        if (told < LEAKS_TOLD) {
            struct sink sink = log_sink();
            sink_print(&sink, "    %zu bytes in %zu blocks%s from\n", leak->bytes, leak->count,
                       leak->direct_count != 0 ? "" : ", which only leaked blocks point to,");
            fault_put_places(&sink, &stack);
        }
        if (has_report) {
            sink_print(&report, "leak %zu %zu %s stack", leak->bytes, leak->count,
                       leak->direct_count != 0 ? "direct" : "indirect");
            fault_put_frames(&report, &stack);
        }
        leak->count = 0;
        leak->number = told + 1;
    }
    if (has_report) {
        edges_tell(&report, heap, leaks, count);
        fault_close(&report);
    }
}

/* Where nothing can be looked through each block would be lost. Some containers refuse to read memory. */
static bool leak_mark_all(struct leak_heap *heap)
{
    uintptr_t word;
    bool can_read = os_read_memory(&heap, &word, sizeof word);
    heap->page_states = os_open_to_read(OS_PAGE_STATES);
    heap->roots.mark = mark_root;
    heap->roots.context = heap;
    if (can_read) {
        leak_roots_visit(&heap->roots, heap->stack);
        mark_untracked(heap);
        mark_pending(heap);
        mark_indirect(heap);
    }
    if (heap->page_states >= 0) {
        os_close(heap->page_states);
    }
    if (heap->roots.mappings == 0) {
        log_warn("leaks cannot be checked here: %s",
                 can_read ? OS_MAPS " cannot be read" : "the kernel refuses process_vm_readv");
    }
    return heap->roots.mappings != 0;
}

/* The frames of this function and of those that it calls hold no pointers of the program, but may hold
 * what earlier calls left there. */
static NOINLINE void leak_check_above(void)
{
    struct leak_heap heap = {
        .mark = LEAK_LIVE, .cause = SIZE_MAX, .stack = (uintptr_t)__builtin_frame_address(0)};
    if (!leak_heap_open(&heap) || !leak_mark_all(&heap)) {
        return; /* it is told why */
    }
    struct leak *leaks = leak_map(heap.count, sizeof *leaks);
    size_t count = leaks != NULL ? leaks_by_calls(&heap, leaks, heap.count) : 0;
    if (count != 0) {
        leaks_tell(&heap, leaks, count);
    }
}

static NOINLINE void leak_check(void)
{
    __builtin_unwind_init(); /* puts the registers of the calling functions into this frame */
    leak_check_above();
    __asm__ volatile(""); /* so that the call is not made a jump out of the frame */
}

static void (*const leak_check_at_exit)(void) = leak_check;
