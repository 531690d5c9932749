/* SPDX-License-Identifier: MIT */
#define MW_NO_JEMALLOC_NAMES
#include "../../include/mallow/jemalloc.h"
#include "utilization.h"

/* The sums over all slabs of a class hold for so long, and for so many questions before somebody looks
 * at the clock: a program that asks for each of its blocks must not wait for a walk each time. */
#define SUMS_HOLD_MS 100u
#define QUESTIONS_PER_LOOK 256u

/* After a question the program is thought to move its blocks for so long. What it moves must not come to
 * lie in holes of slabs that it is about to empty. */
#define MOVES_FOR_MS 2000u

/* Of the slabs of a class that have a free slot. */
struct sums {
    _Atomic uint64_t slots; /* atomic */
    _Atomic uint64_t out;   /* atomic; of these with the program */
};

static struct {
    _Atomic uint64_t made_ms; /* 0: not yet */
    _Atomic uint32_t questions;
    _Atomic bool is_busy; /* a thread is making new ones */
    struct sums classes[CLASSES];
} sums IN_SECTION(sums);

/* Other threads may be using the slab: a moment's number. */
__attribute__((no_sanitize("thread"))) static uint32_t slots_out(struct extent *extent)
{
    uint32_t remote = list_word_length(atomic_get(&extent->remote));
    uint32_t out = atomic_peek(&extent->slab.left) + atomic_peek(&extent->slab.bias);
    return out >= remote && out - remote <= extent->slab.capacity ? out - remote
                                                                  : extent->slab.capacity;
}

static bool extent_is_used(struct extent *extent)
{
    return extent != pagemap_nothing() && extent_state(extent) == EXTENT_ACTIVE;
}

static struct utilization utilization_of(const void *block)
{
    struct extent *extent = pagemap_find(block);
    if (!extent_is_used(extent)) {
        return (struct utilization){0};
    }
    if (!extent_is_slab(extent)) {
        size_t size = extent_is_guarded(extent) ? guarded_size_around(block) : extent_size(extent);
        size = extent_is_hollow(extent) ? 0 : size;
        return (struct utilization){0, 1, size};
    }
    uint32_t capacity = extent->slab.capacity;
    return (struct utilization){capacity - slots_out(extent), capacity, extent_size(extent)};
}

static bool utilization_query(const void *block, struct utilization_of_bin *result)
{
    struct extent *extent = pagemap_find(block);
    *result = (struct utilization_of_bin){.block = utilization_of(block)};
    if (!extent_is_used(extent) || !extent_is_slab(extent)) {
        return true;
    }
    struct stats *stats = stats_open();
    if (stats == NULL) {
        return false;
    }
    unsigned class = extent->slab.class;
    result->bin_slots = stats->all.classes[class].slots;
    result->bin_free_slots = result->bin_slots - stats->all.classes[class].slots_out;
    stats_close(stats);
    if (!class_is_medium(class)) {
        struct heap *heap = thread_enter();
        struct extent *current = heap->bins[class].current;
        result->current = current != NULL ? (void *)current->start : NULL;
        thread_leave(heap);
    }
    return true;
}

/* --- Which blocks should move ----------------------------------------------------------------- */

static void sums_make(uint64_t now_ms)
{
    struct stats *stats = stats_open();
    if (stats == NULL) {
        return;
    }
    for (unsigned class = 1; class < CLASSES; class ++) {
        const struct stats_class *of = &stats->all.classes[class];
        uint64_t full = of->slots - of->slots_nonfull;
        atomic_set(&sums.classes[class].slots, of->slots_nonfull);
        atomic_set(&sums.classes[class].out, of->slots_out - full);
    }
    stats_close(stats);
    atomic_set(&sums.made_ms, now_ms);
}

static void utilization_note_moves(void)
{
    atomic_set(&heaps.moving_until_ms, clock_look() + MOVES_FOR_MS);
}

static void sums_make_if_due(void)
{
    bool is_first = atomic_get(&sums.made_ms) == 0;
    if (atomic_add(&sums.questions, 1) % QUESTIONS_PER_LOOK != 0 && !is_first) {
        return;
    }
    uint64_t now_ms = clock_look();
    utilization_note_moves();
    if ((is_first || now_ms - atomic_get(&sums.made_ms) >= SUMS_HOLD_MS) &&
        !atomic_exchange_explicit(&sums.is_busy, true, memory_order_relaxed)) {
        sums_make(now_ms);
        atomic_set(&sums.is_busy, false);
    }
}

/* Whether the next blocks of the class come from this slab: then moving gains nothing. */
__attribute__((no_sanitize("thread"))) static bool slab_is_next(struct extent *extent)
{
    if (slab_is_common(extent)) {
        return common_is_first(extent);
    }
    if (!slab_is_of_depot(extent)) {
        return extent->slab.place != SLAB_READY && extent->slab.place != SLAB_WAITING &&
               extent->slab.place != SLAB_SHARED && extent->slab.place != SLAB_NONE;
    }
    struct link *first = slab_pool_of(extent)->slabs[extent->slab.class].next;
    return first == &extent->link;
}

/* A block that moves must not land in the slot that the one before has left: so what the thread has
 * freed goes back to its slabs first. */
static void return_magazine(unsigned class)
{
    if (class_is_medium(class)) {
        struct heap *heap = thread_enter();
        heap_return_list(heap, class);
        thread_leave(heap);
    }
}

/* Whether blocks should leave a slab of which so many slots are out. The first rule is that of Redis's
 * jemalloc: it is at most one eighth fuller than slabs with free slots are on average. As slabs differ in
 * size, it is said in shares. Where a few blocks that never move keep some slabs almost empty, the average
 * is so low that nothing else would move either: so blocks leave whatever has a quarter of its slots free.
 * That comes to an end, for the slab that they move to is filled before the next. */
static bool blocks_should_leave(const struct sums *of, uint64_t out, uint64_t capacity)
{
    return 8 * out * atomic_get(&of->slots) <= 9 * atomic_get(&of->out) * capacity ||
           4 * out <= 3 * capacity;
}

int mw_get_defrag_hint(void *block)
{
    process_init();
    struct extent *extent = pagemap_find(block);
    if (!extent_is_used(extent) || !extent_is_slab(extent) || slab_is_next(extent)) {
        return 0;
    }
    uint64_t out = slots_out(extent), capacity = extent->slab.capacity;
    if (out == capacity) {
        return 0;
    }
    sums_make_if_due();
    bool is_sparse = blocks_should_leave(&sums.classes[extent->slab.class], out, capacity);
    if (is_sparse) {
        return_magazine(extent->slab.class);
    }
    return is_sparse;
}
