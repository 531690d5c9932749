/* SPDX-License-Identifier: MIT */
#include "heap.h"

#include "../slots/harden.h"

/* Lists are made so long; slots up to this size are cheap enough to use many of them by turns. */
#define LENGTHEN_SLOTS 32u
#define LENGTHEN_SLOT_MAX 1024u

static void heap_init(struct heap *heap, struct arena *arena)
{
    heap->arena = arena;
    heap_set_pace(heap);
    heap->budget = 0; /* the first call looks at the clock */
}

/* --- The slow side of malloc ------------------------------------------------------------------ */

/* Cuts the list behind its first `count` slots; what follows stays in the slab. */
static NOINLINE void heap_take_part(struct extent *extent, uint32_t count)
{
    struct slot *last = extent->slab.local;
    for (uint32_t i = 1; i < count; i++) {
        last = last->next;
    }
    extent->slab.local = last->next;
    extent->slab.left += count;
    last->next = NULL;
}

static struct slot *heap_take_local(struct heap *heap, struct extent *extent)
{
    struct slab *slab = &extent->slab;
    struct slot *slot = slab->local;
    if (unlikely(heap->is_slow)) {
        slab->local = slot->next;
        slab->left++;
        return slot;
    }
    uint32_t count = slab->carved - slab->left;
    if (count > heap->list_max) {
        count = heap->list_max;
        heap_take_part(extent, count);
    } else {
        slab->local = NULL;
        slab->left = slab->carved;
    }
    heap->budget -= (int32_t)count;
    heap->free[slab->class] = slot->next;
    heap->bins[slab->class].kept = 0;
    return slot;
}

static void heap_uncount_empty(struct heap *heap, struct extent *extent)
{
    if (extent->slab.counted_empty) {
        extent->slab.counted_empty = false;
        heap->empty_bytes -= extent_size(extent);
    }
}

/* Takes a slab out of the list that it is in. */
static void heap_unlist(struct heap *heap, struct extent *extent)
{
    list_remove(&extent->link);
    heap->bins[extent->slab.class].ready_count -= extent->slab.place == SLAB_READY;
    extent->slab.place = SLAB_NONE;
    heap_uncount_empty(heap, extent);
}

static void bin_push_ready(struct bin *bin, struct extent *extent)
{
    extent->slab.place = SLAB_READY;
    list_push_back(&bin->ready, &extent->link);
    bin->ready_count++;
}

/* Takes the fullest of the first ready slabs; NULL if there is none. */
static struct extent *heap_take_ready(struct heap *heap, struct bin *bin)
{
    struct extent *fullest = NULL;
    struct link *at = list_first(&bin->ready);
    for (unsigned tries = 0; tries < READY_TRIES && at != &bin->ready; tries++, at = at->next) {
        struct extent *extent = slab_at(at);
        slab_absorb_remote(extent);
        if (fullest == NULL || slab_used(extent) > slab_used(fullest)) {
            fullest = extent;
        }
    }
    if (fullest != NULL) {
        heap_unlist(heap, fullest);
    }
    return fullest;
}

/* Brings the hit path's list of a class back to the slabs that it came from. */
static void heap_return_list(struct heap *heap, unsigned class)
{
    struct extent *current = heap->bins[class].current;
    struct slot *others = NULL;
    struct slot *next;
    for (struct slot *slot = heap->free[class]; slot != NULL; slot = next) {
        next = slot->next;
        if (current != NULL && (uintptr_t)slot - current->start < extent_size(current)) {
            slot->next = current->slab.local;
            current->slab.local = slot;
            current->slab.left--;
        } else {
            slot->next = others;
            others = slot;
        }
    }
    heap->free[class] = NULL;
    heap_return_others(heap, others);
}

static void heap_return_lists(struct heap *heap)
{
    for (uint64_t left = heap->bins_used; left != 0; left &= left - 1) {
        heap_return_list(heap, (unsigned)__builtin_ctzl(left));
    }
}

/* Memory went back to an arena, and the program may rest now. */
static void heap_note_release(struct heap *heap)
{
    heap->released_ms = atomic_get(&heaps.tick_ms);
    if (heap->list_max != HEAP_LIST_SHORT) {
        heap->list_max = HEAP_LIST_SHORT;
        heap->budget = 0;
        heap_return_lists(heap);
    }
}

static void heap_release_slab(struct heap *heap, struct extent *extent)
{
    slab_destroy(extent);
    heap_note_release(heap);
}

/* Keeps or gives back a slab that no slot of is used; it is in no list. */
static void heap_keep_or_release(struct heap *heap, struct extent *extent)
{
    struct slab *slab = &extent->slab;
    if (heap->empty_bytes + extent_size(extent) > HEAP_EMPTY_MAX) {
        heap_release_slab(heap, extent);
        return;
    }
    /* Slots that are made anew lie in order: a list in the order of their frees would be walked from
     * one cache miss to the next. Where the fill is checked, it tells of writes after the free. */
    if (!MW_FILL) {
        slab->was_carved |= slab->carved == slab->capacity;
        slab->local = NULL;
        slab->carved = 0;
    }
    heap->empty_bytes += extent_size(extent);
    slab->counted_empty = true;
    bin_push_ready(&heap->bins[slab->class], extent);
}

/* Puts a slab that the heap owns, and that is in no list, where it belongs. */
static void heap_place(struct heap *heap, struct extent *extent)
{
    struct slab *slab = &extent->slab;
    struct bin *bin = &heap->bins[slab->class];
    uint32_t used = slab_used(extent);
    uint32_t available = slab->capacity - used;
    uint32_t wanted = slab_slots_wanted(extent);
    heap->bins_used |= (uint64_t)1 << slab->class;
    slab->left = used;
    slab->bias = 0;
    if (used == 0) {
        heap_keep_or_release(heap, extent);
    } else if (available >= wanted && bin->ready_count >= READY_MAX) {
        slab->place = SLAB_NONE;
        heap_abandon_slab(heap, extent);
    } else if (available >= wanted) {
        bin_push_ready(bin, extent);
    } else {
        slab->place = SLAB_WAITING;
        slab->left = wanted - available < used ? wanted - available : used;
        slab->bias = used - slab->left;
        list_push_back(&bin->waiting, &extent->link);
    }
}

/* Collects what others freed into the slab that has been in a list for the longest time. A heap that
 * takes over slabs without allocating would else never learn that they are empty. */
static void heap_look_at_oldest(struct heap *heap, struct link *list)
{
    if (!list_is_empty(list)) {
        struct extent *extent = slab_at(list->next);
        heap_unlist(heap, extent);
        slab_absorb_remote(extent);
        heap_place(heap, extent);
    }
}

static void heap_adopt(struct heap *heap, struct extent *extent)
{
    check(atomic_get(&extent->slab.owner) == heap);
    struct bin *bin = &heap->bins[extent->slab.class];
    if (extent->slab.place == SLAB_SHARED) {
        slab_unshare(extent);
    }
    heap_empty_own_outbox(heap, extent);
    slab_absorb_remote(extent);
    heap_look_at_oldest(heap, &bin->ready);
    heap_look_at_oldest(heap, &bin->waiting);
    heap_place(heap, extent);
}

/* Gives up the current slab, all of whose slots are out. */
static void heap_give_up_current(struct heap *heap, struct bin *bin)
{
    struct extent *extent = bin->current;
    check(slab_is_full(extent) && extent->slab.local == NULL);
    bin->current = NULL;
    extent->slab.place = SLAB_NONE;
    if (slab_disown(extent, heap)) {
        heap_adopt(heap, extent);
    }
}

/* Slabs that wait may have got slots from other threads, which nobody told us: looks at a few. */
static void heap_look_at_waiting(struct heap *heap, struct bin *bin)
{
    for (unsigned tries = 0; tries < READY_TRIES && !list_is_empty(&bin->waiting); tries++) {
        struct extent *extent = slab_at(bin->waiting.next);
        heap_unlist(heap, extent);
        slab_absorb_remote(extent);
        heap_place(heap, extent);
    }
}

static struct extent *heap_take_shared(struct heap *heap, unsigned class)
{
    unsigned count = arena_count();
    for (unsigned i = 0; i < count; i++) {
        struct arena *arena = arena_at((heap->arena->index + i) % count);
        struct extent *extent = slab_take_shared(arena, class, heap);
        if (extent != NULL) {
            slab_absorb_remote(extent);
            uint32_t used = slab_used(extent);
            extent->slab.left = used;
            extent->slab.bias = 0;
            return extent;
        }
    }
    return NULL;
}

/* Frees what can be freed when the kernel gives no more memory. */
static void heap_reclaim(struct heap *heap)
{
    heap_collect(heap);
    for (struct heap *at = atomic_get_acquire(&heaps.all); at != NULL; at = at->next) {
        heap_rob_cache(at, 0, true);
    }
    for (unsigned i = 0; i < arena_count(); i++) {
        arena_purge(arena_at(i), 0);
        arena_unmap_free_regions(arena_at(i));
    }
}

/* Pages for a slab: those of the heap's own empty slabs and cached blocks come before memory that is
 * not resident. */
static struct extent *heap_alloc_pages(struct heap *heap, size_t pages)
{
    struct extent *extent = NULL;
    if (heap->empty_bytes != 0 || heap->cache_bytes >= pages << os_page_shift) {
        extent = arena_alloc_dirty(heap->arena, pages, os_page_size);
        if (extent == NULL) {
            heap_release_empty(heap);
            heap_flush_cache(heap);
        }
    }
    return extent != NULL ? extent : arena_alloc(heap->arena, pages, os_page_size);
}

static struct extent *heap_make_slab(struct heap *heap, unsigned class)
{
    struct bin *bin = &heap->bins[class];
    struct extent *extent = heap_alloc_pages(heap, class_slab_pages(class, bin->made));
    if (extent == NULL) {
        heap_reclaim(heap);
        size_t pages = class_slab_pages(class, 0);
        unsigned count = arena_count();
        for (unsigned i = 0; i < count && extent == NULL; i++) {
            struct arena *arena = arena_at((heap->arena->index + i) % count);
            extent = arena_alloc(arena, pages, os_page_size);
        }
    }
    if (extent != NULL) {
        slab_create(extent, class, heap);
        bin->made = (uint8_t)(bin->made + (bin->made < 16));
    }
    return extent;
}

/* A slab with free slots to allocate from next, in no list; NULL if there is none. */
static struct extent *heap_next_slab(struct heap *heap, unsigned class)
{
    struct bin *bin = &heap->bins[class];
    struct extent *extent = heap_take_ready(heap, bin);
    if (extent == NULL) {
        heap_look_at_waiting(heap, bin);
        extent = heap_take_ready(heap, bin);
    }
    if (extent == NULL) {
        heap_flush_outboxes(heap);
        extent = heap_take_shared(heap, class);
    }
    return extent;
}

/* --- Refill ----------------------------------------------------------------------------------- */

/* A program that allocates a block and frees it, over and over, would go on with the few slots that
 * it began with and come here at every few calls. Once in a while such a list gets more slots. */
static void heap_lengthen_local(struct heap *heap, struct extent *extent)
{
    struct slab *slab = &extent->slab;
    if (slab->carved - slab->left >= LENGTHEN_SLOTS || slab->carved == slab->capacity ||
        slab->slot_size > LENGTHEN_SLOT_MAX || heap->is_slow) {
        return;
    }
    uint32_t carved_before = slab->carved;
    struct slot *more = slab_carve(extent, heap->list_max);
    slab->left -= slab->carved - carved_before; /* not handed out, but free */
    struct slot *last = slab->local;
    while (last->next != NULL) {
        last = last->next;
    }
    last->next = more;
}

static struct slot *heap_refill(struct heap *heap, unsigned class, bool must_be_aligned)
{
    struct bin *bin = &heap->bins[class];
    if (heap->budget <= 0) {
        heap_tick(heap);
    }
    bin->kept = 0;
    for (;;) {
        struct extent *extent = bin->current;
        if (extent == NULL) {
            extent = heap_next_slab(heap, class);
            if (extent == NULL && !must_be_aligned) {
                struct slot *block = heap_take_common(heap, class);
                if (block != NULL) {
                    return block;
                }
            }
            if (extent == NULL) {
                extent = heap_make_slab(heap, class);
            }
            if (extent == NULL) {
                return NULL;
            }
            extent->slab.place = SLAB_CURRENT;
            bin->current = extent;
            heap->bins_used |= (uint64_t)1 << class;
        }
        if (extent->slab.local != NULL) {
            heap_lengthen_local(heap, extent);
            return heap_take_local(heap, extent);
        }
        uint32_t count = 0;
        struct slot *list = slab_collect_remote(extent, &count);
        if (list == NULL && extent->slab.carved < extent->slab.capacity) {
            count = extent->slab.carved;
            list = slab_carve(extent, heap->is_slow ? 1 : heap->list_max);
            count = extent->slab.carved - count;
        }
        if (list != NULL) {
            heap->budget -= (int32_t)count;
            heap->free[class] = list->next;
            return list;
        }
        heap_give_up_current(heap, bin);
    }
}

/* --- The slow side of free -------------------------------------------------------------------- */

/* The slot counts as used in its slab until heap_return_list brings it there. */
static bool heap_keep_slot(struct heap *heap, struct extent *extent, struct slot *slot)
{
    unsigned class = extent->slab.class;
    struct bin *bin = &heap->bins[class];
    if (class <= CLASS_OF_SMALL_MAX || bin->current == NULL || heap->is_slow ||
        bin->kept >= KEPT_SLOTS || bin->kept * extent->slab.slot_size >= KEPT_BYTES) {
        return false;
    }
    if (unlikely(heap->free[class] == slot)) {
        harden_bad_block("free", extent, slot);
    }
    slot->next = heap->free[class];
    heap->free[class] = slot;
    bin->kept++;
    heap->budget -= heap->list_max == HEAP_LIST_SHORT ? KEPT_COST_SHORT : 1;
    if (unlikely(heap->budget < 0)) {
        heap_tick(heap);
    }
    return true;
}

static NOINLINE void heap_slab_event(struct heap *heap, struct extent *extent)
{
    if (extent->slab.place == SLAB_CURRENT) {
        return; /* empty, but the next malloc will want it */
    }
    check(extent->slab.place == SLAB_READY || extent->slab.place == SLAB_WAITING);
    heap_unlist(heap, extent);
    heap_place(heap, extent);
}

static void bin_release_empty_ready(struct heap *heap, struct bin *bin)
{
    struct link *next;
    for (struct link *at = list_first(&bin->ready); at != &bin->ready; at = next) {
        next = at->next;
        struct extent *extent = slab_at(at);
        slab_absorb_remote(extent);
        if (slab_used(extent) == 0) {
            heap_unlist(heap, extent);
            heap_release_slab(heap, extent);
        }
    }
}

/* Slabs that wait join the ready ones, or go, by what other threads freed of them. */
static void bin_look_at_all_waiting(struct heap *heap, struct bin *bin)
{
    struct link *next;
    for (struct link *at = list_first(&bin->waiting); at != &bin->waiting; at = next) {
        next = at->next;
        struct extent *extent = slab_at(at);
        if (atomic_get(&extent->remote) != 0) {
            heap_unlist(heap, extent);
            slab_absorb_remote(extent);
            heap_place(heap, extent);
        }
    }
}

/* Gives back the slabs without used slots, the current ones too if nothing of them is in use. */
static void heap_release_empty(struct heap *heap)
{
    for (uint64_t left = heap->bins_used; left != 0; left &= left - 1) {
        unsigned class = (unsigned)__builtin_ctzl(left);
        struct bin *bin = &heap->bins[class];
        heap_return_list(heap, class);
        bin_look_at_all_waiting(heap, bin);
        bin_release_empty_ready(heap, bin);
        if (bin->current != NULL) {
            slab_absorb_remote(bin->current);
            if (slab_used(bin->current) == 0) {
                heap_release_slab(heap, bin->current);
                bin->current = NULL;
            }
        }
        if (bin->current == NULL && list_is_empty(&bin->ready) && list_is_empty(&bin->waiting)) {
            heap->bins_used &= ~((uint64_t)1 << class);
        }
    }
}

/* --- Start and end ---------------------------------------------------------------------------- */

static void heap_collect(struct heap *heap)
{
    heap_flush_outboxes(heap);
    heap_flush_cache(heap);
    heap_release_empty(heap);
}

/* Gives up one slab that is in no list of the heap. */
static void heap_abandon_slab(struct heap *heap, struct extent *extent)
{
    struct slab *slab = &extent->slab;
    do {
        if (slab->place == SLAB_SHARED) {
            slab_unshare(extent);
        }
        heap_empty_own_outbox(heap, extent);
        slab_absorb_remote(extent);
        uint32_t used = slab_used(extent);
        slab->left = used;
        slab->bias = 0;
        slab->place = SLAB_NONE;
        if (used == 0) {
            heap_release_slab(heap, extent);
            return;
        }
        if (slab->capacity - used >= slab_slots_wanted(extent)) {
            slab_share(extent, heap);
        }
    } while (slab_disown(extent, heap));
}

static void heap_abandon(struct heap *heap)
{
    heap_flush_outboxes(heap);
    heap_flush_cache(heap);
    for (uint64_t left = heap->bins_used; left != 0; left &= left - 1) {
        unsigned class = (unsigned)__builtin_ctzl(left);
        struct bin *bin = &heap->bins[class];
        heap_return_list(heap, class);
        if (bin->current != NULL) {
            struct extent *extent = bin->current;
            bin->current = NULL;
            heap_abandon_slab(heap, extent);
        }
        struct link *lists[] = {&bin->ready, &bin->waiting};
        for (unsigned i = 0; i < array_count(lists); i++) {
            while (!list_is_empty(lists[i])) {
                struct extent *extent = slab_at(lists[i]->next);
                heap_unlist(heap, extent);
                heap_abandon_slab(heap, extent);
            }
        }
        bin->made = 0;
        bin->common_bytes = 0;
    }
    heap->bins_used = 0;
    heap->tick_ms = 0;
    heap->budget = 0;
    check(heap->empty_bytes == 0);
}

/* --- Validity --------------------------------------------------------------------------------- */

static bool heap_list_is_valid(struct heap *heap, struct link *list, enum slab_place place)
{
    for (struct link *at = list_first(list); at != list; at = at->next) {
        struct extent *extent = slab_at(at);
        require(at->next->prev == at);
        require(slab_is_valid(extent) && extent->slab.place == place);
        require(atomic_get(&extent->slab.owner) == heap);
    }
    return true;
}

static bool heap_check(struct heap *heap)
{
    for (unsigned class = 0; class < CLASSES; class ++) {
        struct bin *bin = &heap->bins[class];
        for (struct slot *slot = heap->free[class]; slot != NULL; slot = slot->next) {
            struct extent *extent = pagemap_find(slot);
            if (slab_is_common(extent)) {
                require(common_block_size(extent, slot) >= class_size(class));
            } else {
                require(extent->slab.class == class && slab_has_slot_at(extent, slot));
            }
        }
        if (bin->current != NULL) {
            require(slab_is_valid(bin->current) && bin->current->slab.place == SLAB_CURRENT);
            require(bin->current->slab.class == class);
        }
        require(heap_list_is_valid(heap, &bin->ready, SLAB_READY));
        require(heap_list_is_valid(heap, &bin->waiting, SLAB_WAITING));
    }
    return true;
}
