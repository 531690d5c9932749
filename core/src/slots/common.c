/* SPDX-License-Identifier: MIT */
#include "common.h"

#include "../memory/meta.h"

#define SLOT_FREE 0u
#define SLOT_INSIDE 255u
#define SLOT_SECOND 128u /* and the class of the block */

/* Slabs that are looked at for one request. */
#define COMMON_TRIES 4u
#define SPARSE_TRIES 8u

/* Blocks that are brought back before they are collected; fewer if they are the last. */
#define COLLECT_COUNT 16u

static_assert(COMMON_SPAN_MAX < SLOT_SECOND && SLOT_SECOND + CLASSES <= SLOT_INSIDE,
              "a span, and a class, fit in the table");
static_assert(sizeof(struct common) + SLAB_SLOTS_MAX <= (size_t)1 << (TABLE_SIZES - 1),
              "a size of tables for each capacity");

/* --- Tables ----------------------------------------------------------------------------------- */

static unsigned table_size_log2(uint32_t capacity)
{
    return floor_log2(size_max(sizeof(struct common) + capacity, CACHE_LINE) - 1) + 1;
}

static struct common *table_new_locked(struct slab_pool *pool, uint32_t capacity)
{
    unsigned log2 = table_size_log2(capacity);
    check(log2 < TABLE_SIZES && lock_is_mine(&pool->lock));
    struct common *table = pool->unused_tables[log2];
    if (table == NULL) {
        return meta_alloc((size_t)1 << log2);
    }
    pool->unused_tables[log2] = table->next_unused;
    return table;
}

static void table_free_locked(struct slab_pool *pool, struct common *table, uint32_t capacity)
{
    unsigned log2 = table_size_log2(capacity);
    check(lock_is_mine(&pool->lock) && pool->unused_tables[log2] != table);
    table->next_unused = pool->unused_tables[log2];
    pool->unused_tables[log2] = table;
}

/* Whether the byte of a slot says that no block begins there, but one that began before goes on. */
static bool slot_is_inside(uint32_t byte)
{
    return byte >= SLOT_SECOND;
}

/* --- Slots in the table ----------------------------------------------------------------------- */

/* A free slot has its fill again, where there is one: its link goes, and of a block of several slots what free has
 * spared, as the ends of the next one may lie there. */
static void common_slot_becomes_free(struct extent *extent, uint32_t index, uint32_t span)
{
    check(span > 0 && span <= COMMON_SPAN_MAX && index + span <= extent->slab.capacity);
    memset(&extent->common->slots[index], SLOT_FREE, span);
    if (MW_FILL) {
        char *slot = (char *)extent->start + (size_t)index * extent->slab.slot_size;
        size_t size = (size_t)span * extent->slab.slot_size;
        bool is_spared = span > 1 && strength_spares_middle(size, strength.fill_whole);
        memset(slot, FILL_FREE, is_spared ? size : sizeof(struct slot));
    }
}

static struct slot *common_slot_becomes_block(struct extent *extent, uint32_t index, uint32_t span,
                                              unsigned class)
{
    uint8_t *slots = &extent->common->slots[index];
    check(span > 0 && span <= COMMON_SPAN_MAX && index + span <= extent->slab.capacity);
    check(slots[0] == SLOT_FREE && slots[span - 1] == SLOT_FREE);
    slots[0] = (uint8_t)span;
    if (span > 1) {
        slots[1] = (uint8_t)(SLOT_SECOND + class);
        memset(slots + 2, SLOT_INSIDE, span - 2);
    }
    return (struct slot *)(extent->start + (uintptr_t)index * extent->slab.slot_size);
}

/* The first slot at or behind `at` where `span` neighbours are free; capacity if there is none. Looks at the
 * last of them first: where that is used, none of the places that it belongs to will do. */
static uint32_t common_find_run(struct extent *extent, uint32_t at, uint32_t span)
{
    const uint8_t *slots = extent->common->slots;
    uint32_t capacity = extent->slab.capacity;
    check(span > 0 && at <= capacity);
    while (at + span <= capacity) {
        uint32_t left = span;
        while (left > 0 && slots[at + left - 1] == SLOT_FREE) {
            left--;
        }
        if (left == 0) {
            return at;
        }
        at += left;
    }
    return capacity;
}

/* Where a search for `span` free neighbours has to begin. */
static uint32_t common_unsearched(struct extent *extent, uint32_t span)
{
    const struct common *common = extent->common;
    bool was_searched = span >= common->span && common->searched > common->hint;
    return was_searched ? common->searched : common->hint;
}

/* A slot becomes free: runs may begin at it, or in front of it. */
static void common_search_again(struct extent *extent, uint32_t index)
{
    struct common *common = extent->common;
    uint32_t first = index > COMMON_SPAN_MAX ? index - COMMON_SPAN_MAX : 0;
    common->hint = index < common->hint ? index : common->hint;
    common->searched = first < common->searched ? first : common->searched;
}

/* Notes whether the list of a class may have slabs, so that most of those who find none take no lock. */
static void common_note_seen(struct slab_pool *pool, enum common_kind kind, unsigned class,
                             bool has_slabs)
{
    check(lock_is_mine(&pool->lock) && class < CLASSES);
    uint64_t before = atomic_get(&pool->common_seen[kind]);
    uint64_t bit = (uint64_t)1 << class;
    uint64_t after = has_slabs ? before | bit : before & ~bit;
    if (after != before) {
        atomic_set(&pool->common_seen[kind], after);
    }
}

static void common_list_locked(struct extent *extent)
{
    check(lock_is_mine(&slab_pool_of(extent)->lock) && extent->common->run_max > 0);
    if (extent->link.next == NULL) {
        enum common_kind kind = common_is_first(extent) ? COMMON_FIRST : COMMON_HOLES;
        common_note_seen(slab_pool_of(extent), kind, extent->slab.class, true);
        list_push_back(extent->common->list, &extent->link);
    }
}

static void common_unlist_locked(struct extent *extent)
{
    check(lock_is_mine(&slab_pool_of(extent)->lock) && extent->slab.place == SLAB_COMMON);
    if (extent->link.next != NULL) {
        list_remove(&extent->link);
    }
}

/* --- Frees ------------------------------------------------------------------------------------ */

/* The slots of a block that the program has given back become free; others must be told, see below. */
static void common_free_locked(struct extent *extent, struct slot *block)
{
    struct slab *slab = &extent->slab;
    uint32_t index = slab_index(extent, block);
    uint32_t span = extent->common->slots[index];
    check(lock_is_mine(&slab_pool_of(extent)->lock) && slab->place == SLAB_COMMON);
    if (unlikely(span == SLOT_FREE || slot_is_inside(span))) {
        harden_bad_block("free", extent, block);
    }
    common_slot_becomes_free(extent, index, span);
    check(slab->left >= span);
    slab->left -= span;
    common_search_again(extent, index);
}

/* So many blocks have become free. */
static void common_tell_freed_locked(struct extent *extent, uint32_t count)
{
    check(count <= atomic_get(&extent->used_at_last));
    extent->common->run_max = extent->slab.capacity;
    common_list_locked(extent);
    /* Whoever brings the next blocks looks at this number after them; here it is the other way
     * round, so one of the two sees that none is out. */
    uint32_t out = atomic_get(&extent->used_at_last) - count;
    atomic_set_ordered(&extent->used_at_last, out); /* pairs with common_pushed */
    check_slow(common_is_valid(extent));
}

/* Brings the blocks that were freed into the table. */
static void common_collect_locked(struct extent *extent)
{
    uint32_t count;
    struct slot *block = slab_collect_remote(extent, &count);
    if (block == NULL) {
        return;
    }
    uint32_t collected = 0;
    while (block != NULL) {
        struct slot *next = slab_next_slot(extent, block);
        common_free_locked(extent, block);
        collected++;
        block = next;
    }
    check(collected == count);
    (void)collected;
    common_tell_freed_locked(extent, count);
}

/* Takes an empty slab out of the pool; the caller retires it without the lock. */
static void common_retire_locked(struct slab_pool *pool, struct extent *extent)
{
    check(slab_used(extent) == 0 && atomic_get(&extent->used_at_last) == 0);
    check(extent->slab.place == SLAB_COMMON && lock_is_mine(&pool->lock));
    common_unlist_locked(extent);
    extent->slab.place = SLAB_NONE;
    extent_make_plain(extent);
    table_free_locked(pool, extent->common, extent->slab.capacity);
    extent->common = NULL;
}

/* Collects what others brought meanwhile, if it may be the last; if no block is out any more, takes the slab out of
 * the pool. */
static bool common_end_locked(struct slab_pool *pool, struct extent *extent)
{
    while (atomic_get_ordered(&extent->remote) != 0 && /* pairs with slab_push_remote */
           atomic_get(&extent->used_at_last) <= COLLECT_COUNT) {
        common_collect_locked(extent);
    }
    bool is_empty = atomic_get(&extent->used_at_last) == 0;
    if (is_empty) {
        common_retire_locked(pool, extent);
    }
    return is_empty;
}

static bool common_collect(struct extent *extent)
{
    struct slab_pool *pool = slab_pool_of(extent);
    lock_take(&pool->lock);
    bool is_empty = false;
    if (slab_is_common(extent)) {
        common_collect_locked(extent);
        is_empty = common_end_locked(pool, extent);
    }
    lock_release(&pool->lock);
    if (is_empty) {
        slab_retire(extent);
    }
    return is_empty;
}

static bool common_try_free(struct extent *extent, struct slot *block, bool *is_empty)
{
    struct slab_pool *pool = slab_pool_of(extent);
    if (!slab_is_common(extent) || common_is_first(extent) || !lock_try_take(&pool->lock)) {
        return false;
    }
    common_free_locked(extent, block);
    common_tell_freed_locked(extent, 1);
    *is_empty = common_end_locked(pool, extent);
    lock_release(&pool->lock);
    if (*is_empty) {
        slab_retire(extent);
    }
    return true;
}

static bool common_pushed(struct extent *extent, uint32_t count, uint32_t total)
{
    /* pairs with common_collect_locked */
    bool is_worth_it = total / COLLECT_COUNT != (total - count) / COLLECT_COUNT ||
                       total >= atomic_get_ordered(&extent->used_at_last);
    return is_worth_it && common_collect(extent);
}

static bool common_is_first(struct extent *extent)
{
    return extent->common->list == &slab_pool_of(extent)->common[COMMON_FIRST][extent->slab.class];
}

static size_t common_block_size(struct extent *extent, const void *block)
{
    const struct common *common = extent->common;
    if (unlikely(common == NULL || !slab_has_slot_at(extent, block))) {
        return 0;
    }
    uint32_t span = common->slots[slab_index(extent, block)];
    return slot_is_inside(span) ? 0 : (size_t)span * extent->slab.slot_size;
}

_Noreturn static COLD void common_bad_block(const char *call, struct extent *extent,
                                            const void *block)
{
    uint32_t index = slab_index(extent, block);
    while (slot_is_inside(extent->common->slots[index])) {
        index--;
    }
    uintptr_t start = extent->start + (uintptr_t)index * extent->slab.slot_size;
    size_t size = (size_t)extent->common->slots[index] * extent->slab.slot_size;
    if (size != 0) {
        harden_interior(call, block, start, size);
    }
    harden_bad_block(call, extent, block);
}

/* --- Taking ----------------------------------------------------------------------------------- */

/* Takes blocks out of one slab and appends them to a list. Returns how many. */
static uint32_t common_take_from_locked(struct extent *extent, unsigned class, uint32_t span,
                                        uint32_t want, struct slot_list *list)
{
    struct slab *slab = &extent->slab;
    uint32_t count = 0;
    uint32_t at = common_unsearched(extent, span);
    check(lock_is_mine(&slab_pool_of(extent)->lock) && slab->place == SLAB_COMMON);
    while (count < want) {
        at = common_find_run(extent, at, span);
        if (at == slab->capacity) {
            extent->common->run_max = span - 1;
            break;
        }
        struct slot *block = common_slot_becomes_block(extent, at, span, class);
        slot_list_append(list, block);
        at += span;
        count++;
    }
    if (span == 1) {
        extent->common->hint = at;
    }
    extent->common->searched = at;
    extent->common->span = span;
    slab->left += count * span;
    check(slab->left <= slab->capacity && count <= want);
    atomic_add(&extent->used_at_last, count);
    check_slow(common_is_valid(extent));
    return count;
}

static struct slot *common_take(struct arena *arena, enum common_kind kind,
                                const struct common_request *request, uint32_t *count)
{
    struct slab_pool *pool = slab_pool_at(arena);
    struct slot_list list = {NULL, NULL};
    uint32_t want = request->want, span = request->span;
    check(span > 1 || request->class == request->slot_class);
    *count = 0;
    if (!common_may_serve(arena, kind, request->slot_class)) {
        return NULL;
    }
    lock_take(&pool->lock);
    for (unsigned tries = 0; tries < COMMON_TRIES && *count < want; tries++) {
        struct link *slabs = &pool->common[kind][request->slot_class];
        if (list_is_empty(slabs)) {
            common_note_seen(pool, kind, request->slot_class, false);
            break;
        }
        struct extent *extent = container_of(slabs->next, struct extent, link);
        check(extent->slab.place == SLAB_COMMON && extent->slab.class == request->slot_class);
        if (extent->common->run_max >= span) {
            *count += common_take_from_locked(extent, request->class, span, want - *count, &list);
        }
        /* One without a run goes behind the others, one without a free slot out of the list. */
        if (extent->common->run_max < span) {
            common_unlist_locked(extent);
            if (extent->common->run_max > 0) {
                common_list_locked(extent);
            }
        }
    }
    slot_list_end(&list);
    lock_release(&pool->lock);
    check((list.head == NULL) == (*count == 0) && *count <= want);
    return list.head;
}

static struct extent *common_take_sparse(struct arena *arena, unsigned class, uint32_t span,
                                         struct heap *heap)
{
    struct slab_pool *pool = slab_pool_at(arena);
    if (!slab_pools_are_used() || atomic_get(&pool->count[class]) == 0) {
        return NULL;
    }
    struct extent *taken = NULL;
    lock_take(&pool->lock);
    struct link *at = list_last(&pool->slabs[class]);
    for (unsigned tries = 0; tries < SPARSE_TRIES && at != &pool->slabs[class]; tries++) {
        struct extent *extent = container_of(at, struct extent, link);
        at = at->prev;
        if (slab_is_sparse(extent, span) && slab_try_own(extent, heap)) {
            slab_unshare_locked(pool, extent);
            taken = extent;
            break;
        }
    }
    lock_release(&pool->lock);
    return taken;
}

/* --- Making ----------------------------------------------------------------------------------- */

/* The caller puts it into its list. False if there is no memory for the table. */
static bool common_create_locked(struct slab_pool *pool, struct extent *extent,
                                 enum common_kind kind)
{
    struct slab *slab = &extent->slab;
    check(slab_is_valid(extent) && extent->link.next == NULL && extent->common == NULL);
    struct common *common = table_new_locked(pool, slab->capacity);
    if (common == NULL) {
        return false;
    }
    extent->common = common;
    common->list = &pool->common[kind][slab->class];
    common->capacity = slab->capacity;
    common->hint = 0;
    common->searched = 0;
    common->span = 1;
    common->run_max = slab->capacity;
    memset(common->slots, 1, slab->carved);
    memset(common->slots + slab->carved, SLOT_FREE, slab->capacity - slab->carved);
    struct slot *next;
    for (struct slot *slot = slab->local; slot != NULL; slot = next) {
        next = slab_next_slot(extent, slot);
        common_slot_becomes_free(extent, slab_index(extent, slot), 1);
    }
    size_t carved_bytes = (size_t)slab->carved * slab->slot_size;
    if (MW_FILL && (FILL_FREE != 0 || slab->was_touched)) {
        memset((char *)extent->start + carved_bytes, FILL_FREE,
               (size_t)(slab->capacity - slab->carved) * slab->slot_size);
    }
    slab->local = NULL;
    slab->left = slab_used(extent);
    slab->bias = 0;
    slab->carved = slab->capacity;
    slab->place = SLAB_COMMON;
    atomic_set(&extent->used_at_last, slab->left);
    extent->link = (struct link){NULL, NULL};
    slab_pools_note_use();
    check_slow(common_is_valid(extent));
    atomic_set_ordered(&extent->owner, OWNER_COMMON); /* pairs with slab_is_common */
    return true;
}

static bool common_create(struct extent *extent, enum common_kind kind, struct heap *owner)
{
    struct slab_pool *pool = slab_pool_of(extent);
    check(extent->slab.place == SLAB_NONE && atomic_get(&extent->owner) == owner);
    check(slab_used(extent) != 0 && slab_counts_match(extent));
    lock_take(&pool->lock);
    bool done = common_create_locked(pool, extent, kind);
    if (done) {
        common_list_locked(extent);
    }
    lock_release(&pool->lock);
    return done;
}

static struct slot *common_create_first(struct extent *extent, struct heap *owner, uint32_t want,
                                        uint32_t *count)
{
    struct slab_pool *pool = slab_pool_of(extent);
    struct slot_list list = {NULL, NULL};
    check(extent->slab.place == SLAB_NONE && atomic_get(&extent->owner) == owner);
    check(slab_used(extent) == 0 && want > 0);
    lock_take(&pool->lock);
    if (common_create_locked(pool, extent, COMMON_FIRST)) {
        *count = common_take_from_locked(extent, extent->slab.class, 1, want, &list);
        slot_list_end(&list);
        if (extent->common->run_max > 0) {
            common_list_locked(extent);
        }
    }
    lock_release(&pool->lock);
    return list.head;
}

/* --- Figures ---------------------------------------------------------------------------------- */

__attribute__((no_sanitize("thread"))) static unsigned common_block_class(struct extent *extent,
                                                                          uint32_t index)
{
    /* A table that serves another slab by now is of that size still. */
    const struct common *common = extent->common;
    unsigned slab_class = extent->slab.class;
    if (common == NULL || index + 1 >= common->capacity || common->slots[index] <= 1) {
        return slab_class;
    }
    unsigned class = common->slots[index + 1] - SLOT_SECOND;
    return class < CLASSES ? class : slab_class;
}

static void figures_add(struct extent *extent, struct common_figures *figures, uint32_t index,
                        uint32_t times)
{
    unsigned class = common_block_class(extent, index);
    figures->blocks[class] += times;
    if (class != extent->slab.class) {
        figures->lent += times * extent->common->slots[index];
    }
}

static void common_count_locked(struct extent *extent, struct common_figures *figures)
{
    const struct common *common = extent->common;
    check(lock_is_mine(&slab_pool_of(extent)->lock) && slab_is_common(extent));
    memset(figures, 0, sizeof *figures);
    for (uint32_t at = 0; at < extent->slab.capacity; at++) {
        if (common->slots[at] != SLOT_FREE && !slot_is_inside(common->slots[at])) {
            figures_add(extent, figures, at, 1);
        }
    }
    /* What was brought back is in the table still. Nobody but who has the lock takes it out of the list, which
     * grows at its head. */
    struct slot *freed = slab_first_remote(extent);
    for (uint32_t i = 0; freed != NULL && i < extent->slab.capacity; i++) {
        figures_add(extent, figures, slab_index(extent, freed), UINT32_MAX);
        freed = slab_next_slot(extent, freed);
    }
}

/* --- Validity --------------------------------------------------------------------------------- */

static bool common_is_valid(struct extent *extent)
{
    const struct common *common = extent->common;
    uint32_t used = 0;
    uint32_t blocks = 0;
    uint32_t run = 0;
    uint32_t capacity = extent->slab.capacity;
    for (uint32_t at = 0; at < capacity;) {
        uint32_t span = common->slots[at];
        require(span <= COMMON_SPAN_MAX && at + span <= capacity);
        for (uint32_t i = 1; i < span; i++) {
            require(i == 1 ? slot_is_inside(common->slots[at + i])
                           : common->slots[at + i] == SLOT_INSIDE);
        }
        check(span != SLOT_FREE || at >= common->hint);
        run = span == SLOT_FREE ? run + 1 : 0;
        check(run <= common->run_max);
        check(run < common->span || at + 1 - common->span >= common->searched);
        used += span;
        blocks += span != SLOT_FREE;
        at += span != SLOT_FREE ? span : 1;
    }
    check(blocks == atomic_get(&extent->used_at_last));
    return used == slab_used(extent) && extent->slab.place == SLAB_COMMON;
}
