/* SPDX-License-Identifier: MIT */
#include "heap.h"

#include "../arena/purge.h"
#include "../slots/harden.h"
#include "chance.h"
#include "heap_common.h"
#include "heap_valid.h"
#include "keep.h"
#include "magazine.h"
#include "delay.h"
#include "remote.h"
#include "stack.h"
#include "tray.h"

static void heap_init(struct heap *heap, struct arena *arena)
{
    heap->arena = arena;
    heap_set_way(heap, false);
    heap_set_list_max(heap, LIST_MAX_WAITING, false);
    heap_set_until_tick(heap, -1); /* the first call looks at the clock */
    heap->stack_resident = 64;     /* unknown counts as all */
    delay_follow_crowd(heap);
}

/* --- The slow side of malloc ------------------------------------------------------------------ */

static void bin_push_ready(struct bin *bin, struct extent *extent)
{
    check(extent->slab.place == SLAB_NONE && bin->ready_count < READY_MAX_ALONE);
    check(slab_used(extent) > 0 && !slab_is_full(extent));
    extent->slab.place = SLAB_READY;
    list_push_back(&bin->ready, &extent->link);
    if (++bin->ready_count > READY_MAX) {
        slab_pools_note_use(); /* heap_take_holes may make a common slab of it */
    }
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
    check(list_is_empty(&bin->ready) == (bin->ready_count == 0));
    return fullest;
}

/* Whether slots of full slabs are kept, see keep.h. Nothing is where frees are delayed or tracked, and in a crowd it would
 * be too much in all. */
static bool bin_is_scarce(struct heap *heap, struct bin *bin, struct slab *slab)
{
    bool has_few = slab->carved != 0 && slab->capacity - (slab->left + slab->bias) <= SCARCE_SLOTS;
    return !MW_DELAY_FREE && !MW_TRACK && bin->ready_count <= SCARCE_READY &&
           (has_few || (bin->made >= MADE_MOST && slab->capacity < SCARCE_CAPACITY)) &&
           !heaps_are_crowded() && atomic_get(&slab_pool_at(heap->arena)->count[slab->class]) == 0;
}

static void bin_make_current(struct heap *heap, struct bin *bin, struct extent *extent)
{
    bin->current = extent;
    bin->is_scarce = bin_is_scarce(heap, bin, &extent->slab);
    extent->slab.place = SLAB_CURRENT;
}

static void heap_return_list(struct heap *heap, unsigned class)
{
    if (class_is_medium(class)) {
        magazine_return(heap, class);
    } else {
        heap_return_small_list(heap, class);
    }
}

static void heap_return_lists(struct heap *heap)
{
    for (uint64_t left = heap->classes_used; left != 0; left &= left - 1) {
        heap_return_list(heap, (unsigned)__builtin_ctzl(left));
    }
}

static NOINLINE void heap_expect_rest(struct heap *heap)
{
    heap->released_ms = atomic_get(&heaps.kept_house_ms);
    heap_set_list_max(heap, LIST_MAX_WAITING, false);
    heap_set_alarm(heap);
    heap_set_until_tick(heap, 0);
    heap_return_lists(heap);
}

/* Gives back the current slab if it is empty and is not wanted: the program frees more than it allocates. */
static void bin_release_current(struct heap *heap, struct bin *bin)
{
    struct extent *extent = bin->current;
    check(extent->slab.place == SLAB_CURRENT && atomic_get(&extent->owner) == heap);
    if (bin->is_draining && slab_used(extent) == 0 && atomic_get(&extent->remote) == 0) {
        bin->current = NULL;
        extent->slab.place = SLAB_NONE;
        heap_release_slab(heap, extent);
    }
    check(bin_counts_match(heap, (unsigned)(bin - heap->bins)));
}

/* Other slabs of the class become empty: the list goes back to the current one, whose end is then told. */
static void heap_drain_current(struct heap *heap, unsigned class)
{
    struct bin *bin = &heap->bins[class];
    bin->is_draining = true;
    (bin->is_scarce ? heap_take_list_back : heap_return_small_list)(heap, class);
    if (bin->current != NULL) {
        bin_release_current(heap, bin);
    }
}

/* Gives back a slab that has become empty; it is in no list. */
static void heap_release_empty(struct heap *heap, struct extent *extent)
{
    unsigned class = extent->slab.class;
    heap_drain_current(heap, class);
    heap_release_slab(heap, extent);
}

/* Puts a slab that the heap owns, and that is in no list, where it belongs; open, see inbox.h, if `opens`. */
static void heap_place(struct heap *heap, struct extent *extent, bool opens)
{
    struct slab *slab = &extent->slab;
    struct bin *bin = &heap->bins[slab->class];
    uint32_t used = slab_used(extent);
    uint32_t available = slab->capacity - used;
    uint32_t wanted = slab_slots_wanted(extent);
    check(slab->place == SLAB_NONE && atomic_get(&extent->owner) == heap &&
          slab_counts_match(extent));
    heap_note_class(heap, slab->class);
    slab->left = used;
    slab->bias = 0;
    if (used == 0) {
        heap_release_empty(heap, extent);
    } else if (available >= wanted && bin->ready_count >= heaps_ready_most()) {
        slab->place = SLAB_NONE;
        heap_abandon_slab(heap, extent);
    } else if (available >= wanted) {
        bin_push_ready(bin, extent);
        if (opens) {
            slab_open(extent);
        }
        if (bin->is_scarce && bin->ready_count > SCARCE_READY) {
            bin->is_scarce = false;
            heap_take_list_back(heap, slab->class);
        }
    } else {
        slab->place = SLAB_WAITING;
        slab->left = wanted - available < used ? wanted - available : used;
        slab->bias = used - slab->left;
        list_push_back(&bin->waiting, &extent->link);
        check(slab->left > 0 && slab_used(extent) == used);
        if (opens) {
            slab_open(extent);
        }
    }
    check(bin_counts_match(heap, (unsigned)(bin - heap->bins)));
}

/* Collects what others freed into the slab that has been in a list for the longest time, and places
 * it anew. A heap that takes over slabs and allocates little would else not learn that they are
 * empty. */
static void heap_look_at_oldest(struct heap *heap, struct link *list)
{
    if (!list_is_empty(list)) {
        struct extent *extent = slab_at(list->next);
        if (list_word_length(atomic_get(&extent->remote)) == 0) {
            list_remove(&extent->link); /* its own frees have placed it already */
            list_push_back(list, &extent->link);
            return;
        }
        heap_unlist(heap, extent);
        slab_absorb_remote(extent);
        heap_place(heap, extent, true);
    }
}

static void heap_adopt(struct heap *heap, struct extent *extent)
{
    check(atomic_get(&extent->owner) == heap && !heap_is_anothers(heap));
    check(extent->slab.place == SLAB_NONE || extent->slab.place == SLAB_SHARED);
    struct bin *bin = &heap->bins[extent->slab.class];
    if (extent->slab.place == SLAB_SHARED) {
        slab_unshare(extent);
    }
    heap_empty_own_outbox(heap, extent);
    slab_absorb_remote(extent);
    heap_place(heap, extent, true); /* before the list comes back, which may have slots of it */
    heap_look_at_oldest(heap, &bin->ready);
    heap_look_at_oldest(heap, &bin->waiting);
}

/* Gives up the current slab, all of whose slots are out. */
static void heap_give_up_current(struct heap *heap, struct bin *bin)
{
    struct extent *extent = bin->current;
    check(slab_is_full(extent) && extent->slab.local == NULL);
    check(extent->slab.place == SLAB_CURRENT && heap->free[extent->slab.class] == NULL);
    bin->current = NULL;
    extent->slab.place = SLAB_NONE;
    if (slab_disown(extent, heap)) {
        heap_adopt(heap, extent);
    }
}

static struct slot *heap_take_local(struct heap *heap, struct extent *extent)
{
    struct slab *slab = &extent->slab;
    unsigned class = slab->class;
    struct bin *bin = &heap->bins[class];
    struct slot *slot = slab->local;
    uint32_t count = slab_listed(extent);
    check(slot != NULL && count > 0 && slab->bias == 0 && slab->left < slab->carved);
    check(atomic_get(&extent->owner) == heap && heap->free[class] == NULL);
    if (count > heap->uncut_most) {
        count = heap->list_max;
        slab_cut_local(extent, count);
    } else {
        slab->local = NULL;
        slab->left = slab->carved;
    }
    if (bin->is_scarce && slab->left == slab->capacity && bin->current == extent) {
        heap_give_up_current(heap, bin); /* frees into it are kept too, and guessed right */
    }
    heap_fill_list(heap, class, slot, count);
    check_slow(heap_free_list_is_valid(heap, class));
    return slot;
}

/* Has the current slab wait until more of its slots are free, and hands out those of a ready one. The
 * slab keeps its owner, so that the next frees into it are hits, and are not spent one by one. */
static NOINLINE struct slot *heap_take_next(struct heap *heap, struct bin *bin)
{
    struct extent *extent = bin->current;
    check(bin->ready_count != 0 && heap->free[extent->slab.class] == NULL);
    bin->current = NULL;
    extent->slab.place = SLAB_NONE;
    heap_place(heap, extent, false); /* a hit path that goes round in its slabs pays nothing */
    check(extent->slab.place == SLAB_WAITING);
    extent = heap_take_ready(heap, bin);
    bin_make_current(heap, bin, extent);
    bin->is_draining = false;
    check(bin_counts_match(heap, extent->slab.class) && !slab_is_full(extent));
    return extent->slab.local != NULL ? heap_take_local(heap, extent) : NULL;
}

/* Slabs that wait may have got slots from other threads, which nobody told us: looks at a few. */
static void heap_look_at_waiting(struct heap *heap, struct bin *bin)
{
    for (unsigned tries = 0; tries < READY_TRIES && !list_is_empty(&bin->waiting); tries++) {
        struct extent *extent = slab_at(bin->waiting.next);
        bool was_open = heap_unlist(heap, extent);
        slab_absorb_remote(extent);
        heap_place(heap, extent, was_open);
    }
}

static struct extent *heap_take_shared(struct heap *heap, unsigned class)
{
    unsigned count = arena_count();
    for (unsigned i = 0; i < count; i++) {
        struct arena *arena = arena_at((heap->arena->index + i) % count);
        struct extent *extent = slab_take_shared(arena, class, heap);
        if (extent != NULL) {
            check(atomic_get(&extent->owner) == heap && extent->slab.place == SLAB_NONE);
            slab_absorb_remote(extent);
            uint32_t used = slab_used(extent);
            extent->slab.left = used;
            extent->slab.bias = 0;
            return extent;
        }
    }
    return NULL;
}

static struct extent *heap_make_slab(struct heap *heap, unsigned class)
{
    struct bin *bin = &heap->bins[class];
    /* In a crowd each heap has a current slab of every class that its thread used before it fell asleep. */
    unsigned most = heaps_are_crowded() ? CROWD_DOUBLINGS : UINT8_MAX;
    unsigned doublings = bin->made < most ? bin->made : most;
    size_t post = slab_post_pages();
    struct extent *extent = heap_take_pages(heap, class_slab_pages(class, doublings) + post);
    if (extent == NULL) {
        extent = heap_take_pages(heap, class_least_pages(class) + post);
    }
    if (extent != NULL) {
        slab_add_post(extent, post);
        slab_create(extent, class, heap);
        heap->counts[class].slabs++;
        bin->made = (uint8_t)(bin->made + (bin->made < MADE_MOST));
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
    check(extent == NULL || (extent->slab.place == SLAB_NONE && extent->slab.class == class));
    return extent;
}

/* --- Refill ----------------------------------------------------------------------------------- */

static struct slot *heap_refill(struct heap *heap, unsigned class, bool must_be_aligned)
{
    struct bin *bin = &heap->bins[class];
    check(!class_is_medium(class) && heap->free[class] == NULL && !heap_is_anothers(heap));
    bin->is_draining = false;
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
            bin_make_current(heap, bin, extent);
            heap_note_class(heap, class);
        }
        check(bin_counts_match(heap, class));
        if (extent->slab.local != NULL) {
            if (heap->list_max != LIST_MAX_IDLE) {
                slab_lengthen_local(extent, heap->list_max);
            }
            return heap_take_local(heap, extent);
        }
        if (atomic_get(&extent->remote) != 0) {
            slab_absorb_remote(extent);
            continue;
        }
        if (extent->slab.carved < extent->slab.capacity) {
            uint32_t carved_before = extent->slab.carved;
            if (MW_RANDOM) {
                /* More than are handed out now: which of them come first nobody can tell. */
                extent->slab.local = slab_carve(extent, UINT32_MAX);
                extent->slab.left -= extent->slab.carved - carved_before;
                continue;
            }
            bool is_first = carved_before == 0 && heap->list_max == LIST_MAX_WAITING;
            uint32_t most = is_first ? FIRST_CARVED : heap->list_max;
            struct slot *list = slab_carve(extent, most);
            uint32_t count = extent->slab.carved - carved_before;
            heap_fill_list(heap, class, list, count);
            check_slow(heap_free_list_is_valid(heap, class));
            return list;
        }
        heap_give_up_current(heap, bin);
    }
}

/* --- The slow side of free -------------------------------------------------------------------- */

static NOINLINE void heap_slab_event(struct heap *heap, struct extent *extent)
{
    check(atomic_get(&extent->owner) == heap && !heap_is_anothers(heap));
    if (extent->slab.place == SLAB_CURRENT) {
        struct bin *bin = &heap->bins[extent->slab.class];
        if (likely(!bin->is_draining)) {
            return; /* the next malloc will want it */
        }
        bin_release_current(heap, bin);
    } else {
        check(extent->slab.place == SLAB_READY || extent->slab.place == SLAB_WAITING);
        bool was_open = heap_unlist(heap, extent);
        heap_place(heap, extent, was_open);
    }
    heap_note_release(heap);
}

/* Gives back ready slabs whose last slots were freed by others, which nobody told us. */
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
        } else {
            slab_open(extent);
        }
    }
}

/* Slabs that wait join the ready ones, or go, by what other threads freed of them. The others are open from now on. */
static void bin_look_at_all_waiting(struct heap *heap, struct bin *bin)
{
    struct link *next;
    for (struct link *at = list_first(&bin->waiting); at != &bin->waiting; at = next) {
        next = at->next;
        struct extent *extent = slab_at(at);
        uint64_t inbox = atomic_get(&extent->remote);
        if (list_word_length(inbox) != 0) {
            heap_unlist(heap, extent);
            slab_absorb_remote(extent);
            heap_place(heap, extent, true);
        } else if (inbox == 0) {
            slab_open(extent);
        }
    }
}

/* Brings a small class in order: its list goes back to the slabs; empty ones go, the current too. */
static void heap_settle_small(struct heap *heap, unsigned class)
{
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
        heap->classes_used &= ~((uint64_t)1 << class);
        bin->is_draining = false;
        bin->is_scarce = false;
    }
    check(bin_counts_match(heap, class) && heap->free[class] == NULL);
}

static void heap_settle_classes(struct heap *heap)
{
    delay_empty(heap);
    heap_flush_outboxes(heap);
    for (uint64_t left = heap->classes_used; left != 0; left &= left - 1) {
        unsigned class = (unsigned)__builtin_ctzl(left);
        if (class_is_medium(class)) {
            magazine_return(heap, class);
        } else {
            heap_settle_small(heap, class);
        }
    }
}

/* Hands all but a few ready slabs to whoever needs them: the thread may sleep from now on. */
static void bin_share_surplus(struct heap *heap, struct bin *bin)
{
    struct link *at = list_first(&bin->ready);
    for (unsigned kept = 0; kept < READY_TRIES && at != &bin->ready; kept++) {
        at = at->next;
    }
    while (at != &bin->ready) {
        struct extent *extent = slab_at(at);
        at = at->next;
        heap_unlist(heap, extent);
        heap_abandon_slab(heap, extent);
    }
}

static void heap_settle(struct heap *heap, uint32_t stamp)
{
    heap_settle_classes(heap);
    for (unsigned class = 0; class < SMALL_CLASSES; class ++) {
        bin_share_surplus(heap, &heap->bins[class]);
    }
    stack_trim(heap, stamp);
    if (!heap->takes_blocks) {
        stack_set_private(heap, false);
    }
    heap->takes_blocks = false;
    heap->sent_home = 0;
    heap->slab_pages_due /= 2;
    check(heap_check(heap)); /* walks, but not often */
}

static void heap_take_back(struct heap *heap, struct extent *extent, struct slot *slot)
{
    struct slab *slab = &extent->slab;
    struct heap *owner = atomic_get(&extent->owner);
    if (owner == OWNER_DEPOT) {
        if (!magazine_try_put(heap, slab->class, slot)) {
            magazine_put_slow(heap, extent, slot);
            heap_note_release(heap);
        } else if (unlikely(heap_is_sampling(heap))) {
            magazine_note_put(heap, slab->class);
        }
        return;
    }
    if (owner == NULL && heap_wants_slab(heap, slab->class) && slab_try_own(extent, heap)) {
        heap_adopt(heap, extent);
        owner = atomic_get(&extent->owner); /* a heap with plenty may have shared it at once */
    }
    if (owner != heap) {
        if (heap_keeps(heap, extent, owner, slot)) {
            heap_keep_of_any(heap, extent, owner, slot);
            if (unlikely(heap_is_sampling(heap))) {
                heap_note_kept(heap, extent->class);
            }
        } else if (owner != OWNER_COMMON || !heap_try_free_to_common(heap, extent, slot)) {
            heap_free_remote(heap, extent, slot);
        }
        return;
    }
    check(slab->left > 0 && slab->place != SLAB_NONE && slab->place <= SLAB_WAITING);
    slot_push(&slab->local, slot);
    if (--slab->left == 0) {
        heap_slab_event(heap, extent);
    }
}

static void (*const heap_takes_back)(struct heap *, struct extent *,
                                     struct slot *) = heap_take_back;

/* --- Start and end ---------------------------------------------------------------------------- */

static void heap_collect(struct heap *heap)
{
    heap_settle_classes(heap);
    stack_flush(heap);
    trays_empty();
}

static void bin_abandon(struct heap *heap, struct bin *bin)
{
    check(bin->ready_count <= READY_MAX_ALONE);
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
    bin->is_draining = false;
    bin->is_scarce = false;
    bin->common_bytes = 0;
}

static void heap_abandon(struct heap *heap)
{
    delay_empty(heap);
    heap_flush_outboxes(heap);
    for (uint64_t left = heap->classes_used; left != 0; left &= left - 1) {
        unsigned class = (unsigned)__builtin_ctzl(left);
        heap_return_list(heap, class);
        if (class_is_medium(class)) {
            magazine_close(heap, class);
        } else {
            bin_abandon(heap, &heap->bins[class]);
        }
    }
    stack_set_private(heap, false);
    stack_flush(heap);
    trays_empty();
    heap->stack_resident = 64;
    heap->slab_pages_due = 0;
    heap->sent_home = 0;
    heap->is_strict = false;
    heap->magazine_bytes = 0;
    heap->classes_used = 0;
    heap_forget_thread(heap);
    atomic_set(&heap->tick_ms, 0);
    heap->awake_slots = 0;
    heap_set_until_tick(heap, -1);
    heap_set_list_max(heap, LIST_MAX_WAITING, false);
    check(heap_is_empty(heap));
}
