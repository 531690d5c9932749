/* SPDX-License-Identifier: MIT */
#include "depot.h"

#include "harden.h"

/* What may be in batches, in equal parts for each arena, and in those of one at least. */
#define BATCHES_TOTAL (4 * MiB)
#define BATCHES_LEAST (256 * KiB)

/* Appends up to `want` slots of one slab to a list. Returns how many. */
static uint32_t depot_take_from_locked(struct extent *extent, uint32_t want, struct slot_list *list)
{
    struct slab *slab = &extent->slab;
    uint32_t count = 0;
    check(lock_is_mine(&slab_pool_of(extent)->lock) && slab->place == SLAB_DEPOT);
    check(slab_is_of_depot(extent) && !slab_is_full(extent));
    while (count < want && slab->local != NULL) {
        struct slot *slot = slab->local;
        slab->local = slab_next_slot(extent, slot);
        slot_list_append(list, slot);
        count++;
    }
    slab->left += count;
    if (count < want && slab->carved < slab->capacity) {
        uint32_t carved = slab->carved;
        struct slot *slot = slab_carve(extent, want - count);
        carved = slab->carved - carved;
        slot_list_append(list, slot);
        for (uint32_t i = 1; i < carved; i++) {
            slot = slot_next(slot);
        }
        list->tail = slot;
        count += carved;
    }
    check(count > 0 && count <= want && slab_counts_match(extent));
    check_slow(depot_slab_is_valid(extent));
    return count;
}

static void depot_unlist_locked(struct slab_pool *pool, struct extent *extent)
{
    check(lock_is_mine(&pool->lock) && atomic_get(&pool->count[extent->slab.class]) > 0);
    list_remove(&extent->link);
    atomic_sub(&pool->count[extent->slab.class], 1);
    check_slow(slab_pool_is_valid(pool, extent->slab.class));
}

/* Slabs that are almost full come first, so that the others can become empty. */
static void depot_list_locked(struct slab_pool *pool, struct extent *extent)
{
    unsigned class = extent->slab.class;
    check(lock_is_mine(&pool->lock) && extent->slab.place == SLAB_DEPOT && !slab_is_full(extent));
    if (slab_used(extent) >= extent->slab.capacity / 2) {
        list_push_front(&pool->slabs[class], &extent->link);
    } else {
        list_push_back(&pool->slabs[class], &extent->link);
    }
    atomic_add(&pool->count[class], 1);
    slab_pools_note_use();
    check_slow(slab_pool_is_valid(pool, class));
}

/* --- Batches ---------------------------------------------------------------------------------- */

static void batch_bytes_add_locked(struct slab_pool *pool, unsigned class, int64_t slots)
{
    int64_t bytes = atomic_get(&pool->batch_bytes) + slots * class_size(class);
    check(lock_is_mine(&pool->lock) && bytes >= 0);
    atomic_set(&pool->batch_bytes, (uint32_t)bytes);
}

/* Of a place that is not used; 0 if all are. */
static uint8_t batch_number_locked(struct slab_pool *pool)
{
    uint8_t number = atomic_get(&pool->batch_unused);
    check(lock_is_mine(&pool->lock));
    if (number != 0) {
        atomic_set(&pool->batch_unused, batch_after(pool, number));
    } else if (pool->batch_places < BATCHES_MOST) {
        number = ++pool->batch_places;
    }
    return number;
}

static void batch_link_locked(struct slab_pool *pool, _Atomic uint8_t *first, uint8_t number)
{
    atomic_set(&pool->batch_next[number - 1], atomic_get(first));
    atomic_set(first, number);
}

static bool depot_put_batch(struct arena *arena, unsigned class, struct slot *list, uint32_t count)
{
    struct slab_pool *pool = slab_pool_at(arena);
    size_t most = size_max(BATCHES_TOTAL / arena_count(), BATCHES_LEAST);
    size_t bytes = (size_t)count * class_size(class);
    check(list != NULL && count > 0);
    if (atomic_get(&pool->batch_bytes) + bytes > most) {
        return false;
    }
    lock_take(&pool->lock);
    bool has_room = atomic_get(&pool->batch_bytes) + bytes <= most;
    uint8_t number = has_room ? batch_number_locked(pool) : 0;
    if (number != 0) {
        atomic_set(batch_at(pool, number), list_word(list, count));
        batch_link_locked(pool, batch_first_of(pool, class), number);
        batch_bytes_add_locked(pool, class, count);
        free_news_note();
        check_slow(depot_batches_are_valid(pool, class));
    }
    lock_release(&pool->lock);
    return number != 0;
}

/* Up to `want` slots of the youngest batch, if there is one. */
static struct slot *batch_take_locked(struct slab_pool *pool, unsigned class, uint32_t want,
                                      uint32_t *count)
{
    uint8_t number = atomic_get(batch_first_of(pool, class));
    check(lock_is_mine(&pool->lock) && want > 0);
    if (number == 0) {
        return NULL;
    }
    _Atomic uint64_t *batch = batch_at(pool, number);
    struct slot *list = list_word_head(atomic_get(batch));
    uint32_t length = list_word_length(atomic_get(batch));
    *count = length < want ? length : want;
    if (length > want) {
        struct slot *last = list;
        list_slot_check(last, class);
        for (uint32_t i = 1; i < want; i++) {
            last = slot_next(last);
            list_slot_check(last, class);
        }
        atomic_set(batch, list_word(slot_next(last), length - want));
        slot_set_next(last, NULL);
    } else {
        atomic_set(batch_first_of(pool, class), batch_after(pool, number));
        batch_link_locked(pool, &pool->batch_unused, number);
    }
    batch_bytes_add_locked(pool, class, -(int64_t)*count);
    check_slow(depot_batches_are_valid(pool, class));
    return list;
}

static bool depot_has_batches(struct arena *arena)
{
    return slab_pools_are_used() && atomic_get(&slab_pool_at(arena)->batch_bytes) != 0;
}

static struct slot *depot_take_batch(struct arena *arena)
{
    struct slab_pool *pool = slab_pool_at(arena);
    struct slot *list = NULL;
    if (!depot_has_batches(arena)) {
        return NULL;
    }
    lock_take(&pool->lock);
    for (unsigned class = SMALL_CLASSES; class < CLASSES && list == NULL; class ++) {
        uint32_t count;
        list = batch_take_locked(pool, class, UINT32_MAX, &count);
    }
    lock_release(&pool->lock);
    return list;
}

static bool depot_batches_are_valid(struct slab_pool *pool, unsigned class)
{
    unsigned batches = 0;
    for (uint8_t at = atomic_get(batch_first_of(pool, class)); at != 0;
         at = batch_after(pool, at)) {
        uint64_t batch = atomic_get(batch_at(pool, at));
        require(at <= pool->batch_places && ++batches <= BATCHES_MOST);
        uint32_t count = 0;
        for (struct slot *slot = list_word_head(batch); slot != NULL; slot = slot_next(slot)) {
            struct extent *extent = pagemap_find(slot);
            require(slab_is_of_depot(extent) && extent->slab.class == class);
            require(++count <= list_word_length(batch));
        }
        require(count == list_word_length(batch) && count > 0);
        require((size_t)count * class_size(class) <= atomic_get(&pool->batch_bytes));
    }
    return true;
}

/* --- Slots of slabs --------------------------------------------------------------------------- */

static struct slot *depot_take(struct arena *arena, unsigned class, uint32_t want, uint32_t *count)
{
    struct slab_pool *pool = slab_pool_at(arena);
    struct slot_list list = {NULL, NULL};
    *count = 0;
    if (!slab_pools_are_used() ||
        (atomic_get(&pool->count[class]) == 0 && atomic_get(batch_first_of(pool, class)) == 0)) {
        return NULL;
    }
    lock_take(&pool->lock);
    struct slot *of_batch = batch_take_locked(pool, class, want, count);
    if (of_batch != NULL) {
        lock_release(&pool->lock);
        return of_batch;
    }
    while (*count < want && !list_is_empty(&pool->slabs[class])) {
        struct extent *extent = container_of(pool->slabs[class].next, struct extent, link);
        check(extent->slab.class == class && slab_pool_of(extent) == pool);
        *count += depot_take_from_locked(extent, want - *count, &list);
        if (slab_is_full(extent)) {
            depot_unlist_locked(pool, extent);
        }
    }
    slot_list_end(&list);
    lock_release(&pool->lock);
    check((list.head == NULL) == (*count == 0) && *count <= want);
    return list.head;
}

static size_t depot_slab_pages(struct arena *arena, unsigned class)
{
    struct slab_pool *pool = slab_pool_at(arena);
    check(class >= SMALL_CLASSES && class < CLASSES);
    uint8_t *made = &pool->depot_made[class - SMALL_CLASSES];
    lock_take(&pool->lock);
    size_t pages = class_slab_pages(class, *made);
    *made = (uint8_t)(*made + (*made < 16));
    lock_release(&pool->lock);
    return pages;
}

static void depot_add(struct extent *extent, unsigned class)
{
    struct slab_pool *pool = slab_pool_of(extent);
    check(class_is_medium(class));
    slab_create(extent, class, OWNER_DEPOT);
    extent->slab.place = SLAB_DEPOT;
    lock_take(&pool->lock);
    depot_list_locked(pool, extent);
    lock_release(&pool->lock);
}

/* Takes one slot back. True if its slab is empty now; then it is in no list. */
static bool depot_put_locked(struct slab_pool *pool, struct extent *extent, struct slot *slot)
{
    struct slab *slab = &extent->slab;
    check(slab->place == SLAB_DEPOT && slab_has_slot_at(extent, slot) && slab->left > 0);
    check(lock_is_mine(&pool->lock) && slab_is_of_depot(extent));
    check(slab_index(extent, slot) < slab_carved_end(extent) && slab->local != slot);
    bool was_full = slab_is_full(extent);
    check(was_full == (extent->link.next == NULL)); /* a full one is in no list */
    slot_set_next(slot, slab->local);
    slab->local = slot;
    slab->left--;
    if (slab->left == 0) {
        if (!was_full) {
            depot_unlist_locked(pool, extent);
        }
        slab->place = SLAB_NONE;
        return true;
    }
    if (was_full) {
        depot_list_locked(pool, extent);
    }
    check_slow(depot_slab_is_valid(extent));
    return false;
}

static void depot_slot_check(struct slot *slot)
{
    if (MW_SLOT_BITMAP) {
        struct extent *extent = pagemap_find(slot);
        if (unlikely(!slab_is_of_depot(extent))) {
            slot_bad_link(extent->slab.class, slot);
        }
        list_slot_check(slot, extent->slab.class);
    }
}

static struct extent *depot_put(struct slot *list)
{
    struct extent *empty = NULL;
    while (list != NULL) {
        depot_slot_check(list);
        struct slab_pool *pool = slab_pool_of(pagemap_find(list));
        lock_take(&pool->lock);
        while (list != NULL) {
            struct slot *slot = list;
            depot_slot_check(slot);
            struct extent *extent = pagemap_find(slot);
            if (slab_pool_of(extent) != pool) {
                break;
            }
            list = slot_next(slot);
            if (depot_put_locked(pool, extent, slot)) {
                extent->slab.below = empty;
                empty = extent;
            }
        }
        lock_release(&pool->lock);
    }
    for (struct extent *at = empty; at != NULL; at = at->slab.below) {
        harden_slab_empty(at);
        slab_retire(at);
    }
    return empty;
}

static bool depot_slab_is_valid(struct extent *extent)
{
    struct slab *slab = &extent->slab;
    uint32_t free = 0;
    for (struct slot *slot = slab->local; slot != NULL; slot = slot_next(slot)) {
        require(slab_has_slot_at(extent, slot) && free < slab->carved);
        free++;
    }
    require(slab->class > CLASS_OF_SMALL_MAX && slab->bias == 0);
    return slab->carved - free == slab_used(extent) && slab->carved <= slab->capacity;
}
