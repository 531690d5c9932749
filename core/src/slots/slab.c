/* SPDX-License-Identifier: MIT */
#include "slab.h"

#include "order.h"
#include "rate.h"

/* Shared slabs that are tried before a new one is made. */
#define SHARED_TRIES 8u

/* A local list that is shorter than this gets slots that were never used. */
#define LENGTHEN_SLOTS 32u

/* Posts that are mappings of their own, at most. */
#define POSTS_PROTECTED_MOST 256u
static _Atomic uint32_t posts_protected;

/* What a post costs of an account for guards. */
#define POST_PRICE (128 * KiB)

/* Slots of a new slab that are carved in one go. */
#define CARVED_AT_FIRST 8u

static_assert(2 * SLAB_SET_MOST <= LEFT_BY_REALLOC_MIN,
              "no slab lies in the mapping of a huge block");

static struct slab_pool slab_pools[ARENAS_MAX] IN_SECTION(pools);

/* Whether a slab was ever in a pool: a program where none was has no use for the pages of the
 * pools. Only ever becomes true. Who reads it too early misses a slab, as if it had come before the
 * slab. */
static _Atomic bool slab_pools_used;

static bool slab_pools_are_used(void)
{
    return atomic_get(&slab_pools_used);
}

static void slab_pools_note_use(void)
{
    if (!atomic_get(&slab_pools_used)) {
        atomic_set(&slab_pools_used, true);
    }
}

static struct slab_pool *slab_pool_at(struct arena *arena)
{
    return &slab_pools[arena->index];
}

static struct slab_pool *slab_pool_of(struct extent *extent)
{
    check(extent_arena(extent) < ARENAS_MAX); /* explicit arenas have none */
    return &slab_pools[extent_arena(extent)];
}

#if MW_CANARY
/* In the second byte of a slab's own part of the key. The address adds the same, as a canary lies 8 bytes behind a
 * multiple of 16: so that byte of a canary is 0. */
#define CANARY_SECOND ((uint64_t)0x80 << 8)

static void slab_choose_canary(struct extent *extent)
{
    uint64_t bits = secret_mix(random_bits(), (uintptr_t)extent ^ secrets.canary);
    uint64_t first = bits % UINT8_MAX + 1;
    extent->canary = (bits & ~(uint64_t)UINT16_MAX) | CANARY_SECOND | first;
}

static uint64_t slab_order_key(struct extent *extent)
{
    return secret_mix(extent->canary, secrets.link_odd);
}

static void slab_forget_canary(struct extent *extent)
{
    atomic_set(&extent->requested, 0);
}
#else
static void slab_forget_canary(struct extent *extent)
{
    (void)extent;
}

static void slab_choose_canary(struct extent *extent)
{
    (void)extent;
}

static uint64_t slab_order_key(struct extent *extent)
{
    return (uintptr_t)extent;
}
#endif

static uint32_t common_divisor(uint32_t a, uint32_t b)
{
    while (b != 0) {
        uint32_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

static bool slab_is_scattered(struct extent *extent)
{
    return MW_RANDOM && extent->slab.slot_size > SMALL_MAX;
}

/* Steps of one length, from a random start, around all slots but the first: they come to each once, as
 * the length has no divisor in common with the number of slots. */
static struct slab_order slab_order(struct extent *extent)
{
    uint32_t others = extent->slab.capacity - 1;
    if (!slab_is_scattered(extent)) {
        return (struct slab_order){.is_plain = true};
    }
    uint64_t key = slab_order_key(extent);
    if (others <= 1) {
        return (struct slab_order){.others = others, .first = (uint32_t)(key & 1)};
    }
    uint32_t step = 1 + random_below(key >> 32, others);
    while (common_divisor(others, step) != 1) {
        step++;
    }
    return (struct slab_order){.others = others, .first = random_below(key, others), .step = step};
}

static uint32_t slab_slot_of_turn(const struct slab_order *order, uint32_t turn)
{
    if (order->is_plain) {
        return turn;
    }
    check(turn <= order->others);
    if (order->others == 1) {
        return turn ^ order->first; /* steps would make one order of two slots */
    }
    if (turn == order->others) {
        return 0;
    }
    return 1 + (uint32_t)((order->first + (uint64_t)turn * order->step) % order->others);
}

static size_t slab_post_pages(void)
{
    return MW_FENCES && atomic_get(&posts_protected) < POSTS_PROTECTED_MOST &&
           rate_pay(RATE_OF_SLABS, POST_PRICE);
}

static void slab_add_post(struct extent *extent, size_t pages)
{
    check(pages <= 1 && extent_pages(extent) > pages && *slab_post(extent) == 0);
    if (!MW_FENCES || pages == 0 || atomic_get(&extent->region->huge_pages) == HUGE_PAGES_ASKED) {
        return;
    }
    struct arena *arena = arena_of(extent);
    lock_take(&arena->lock);
    bool is_reserved = descriptor_reserve_locked(arena); /* for slab_drop_post */
    lock_release(&arena->lock);
    unsigned way =
        is_reserved ? os_guard((void *)(extent_end(extent) - os_page_size), os_page_size) : 0;
    *slab_post(extent) = (uint8_t)way;
    atomic_add(&posts_protected, (way & GUARD_PROTECTED) != 0);
    if (way == 0 && is_reserved) {
        lock_take(&arena->lock);
        descriptor_unreserve_locked(arena);
        lock_release(&arena->lock);
    }
}

/* The extent is plain pages by now. A post that the kernel does not open becomes an extent that nobody
 * gets. */
static void slab_drop_post(struct extent *extent)
{
    unsigned way = *slab_post(extent);
    if (!MW_FENCES || likely(way == 0)) {
        return;
    }
    struct arena *arena = arena_of(extent);
    void *page = (void *)(extent_end(extent) - os_page_size);
    *slab_post(extent) = 0;
    atomic_sub(&posts_protected, (way & GUARD_PROTECTED) != 0);
    bool is_open = os_unguard(page, os_page_size, way) || os_map_over(page, os_page_size);
    lock_take(&arena->lock);
    descriptor_unreserve_locked(arena);
    if (unlikely(!is_open)) {
        struct extent *post = extent_split_locked(arena, extent, extent_pages(extent) - 1);
        require(post != NULL);
        slab_forget_canary(post);
    }
    lock_release(&arena->lock);
}

static void slab_create(struct extent *extent, unsigned class, struct heap *owner)
{
    uint32_t slot_size = class_size(class);
    struct slab *slab = &extent->slab;
    check(class < CLASSES && extent_state(extent) == EXTENT_ACTIVE && !extent->is_huge);
    check(!extent_is_slab(extent) && atomic_get(&extent->owner) == OWNER_NOT_A_SLAB);
    check(extent->link.next == NULL);
    slab->local = NULL;
    slab->left = 0;
    slab->bias = 0;
    slab->carved = 0;
    slab->capacity = (uint32_t)size_min(slab_bytes(extent) / slot_size, SLAB_SLOTS_MAX);
    slab->slot_size = slot_size;
    slab->reciprocal = UINT64_MAX / slot_size + 1;
    slab->class = (uint8_t) class;
    slab->place = SLAB_NONE;
    slab->was_touched = !extent->is_zero;
    extent->class = slab->class;
    extent->slots = extent->start;
    atomic_set(&extent->remote, 0);
    slab_choose_canary(extent);
    slots_hold_none(extent);
    /* pairs with nothing: the rest comes first for the child of a fork, see thread/orphan.h */
    atomic_set_release(&extent->owner, owner);
    if (owner == OWNER_DEPOT) {
        pagemap_set_list(extent->start, extent_size(extent), extent, class);
    } else {
        pagemap_set_range(extent->start, extent_size(extent), extent);
    }
    check(slab->capacity > 0 && slab->capacity * (size_t)slot_size <= slab_bytes(extent));
    check_slow(slab_is_valid(extent));
}

static void slab_retire(struct extent *extent)
{
    check(slab_used(extent) == 0 && atomic_get(&extent->remote) == 0);
    check(extent_is_slab(extent) && extent->link.next == NULL);
    check(extent->slab.place == SLAB_NONE || extent->slab.place == SLAB_CURRENT);
    extent_make_plain(extent);
    extent->slab.slot_size = 0;
    size_t size = extent_size(extent);
    if (size > 2 * GRANULE) {
        pagemap_set_range(extent->start + GRANULE, size - 2 * GRANULE, NULL);
    }
    extent_map_ends(extent);
    check_slow(extent_is_mapped_by_ends(extent));
    slab_drop_post(extent);
}

/* The same in an order that nobody can tell in advance. */
static struct slot *slab_carve_mixed(struct extent *extent, char *first, uint32_t count)
{
    struct slab *slab = &extent->slab;
    uint16_t order[ORDER_SLOTS_MAX];
    struct slot_list list = {NULL, NULL};
    slots_fill_carved(extent, first, count);
    size_t pages = ((size_t)count * slab->slot_size + os_page_size - 1) >> os_page_shift;
    order_choose(order, count, (uint32_t)size_min(pages, strength.order_runs));
    for (uint32_t i = 0; i < count; i++) {
        slot_list_append(&list, (struct slot *)(first + (size_t)order[i] * slab->slot_size));
    }
    slot_list_end(&list);
    slab->carved += count;
    slab->left += count;
    check(slab_counts_match(extent));
    order_stores();
    return list.head;
}

/* What lies in front of a slot that was never carved is what its pages had before: makes it look as
 * the end of a free slot, because a free of the slot will look there, see canary.h. */
static void slab_clear_front(struct extent *extent, const struct slab_order *order, uint32_t index)
{
    if (!extent->slab.was_touched || index == 0) {
        return;
    }
    for (uint32_t i = 0; i < extent->slab.carved; i++) {
        if (slab_slot_of_turn(order, i) == index - 1) {
            return; /* the program may hold it */
        }
    }
    char *slot = (char *)extent->start + (size_t)index * extent->slab.slot_size;
    store_unaligned(slot - sizeof(uint64_t), FILL_FREE_WORD);
}

static struct slot *slab_carve_scattered(struct extent *extent, uint32_t count)
{
    struct slab *slab = &extent->slab;
    struct slot_list list = {NULL, NULL};
    struct slab_order order = slab_order(extent);
    for (uint32_t i = 0; i < count; i++) {
        uint32_t index = slab_slot_of_turn(&order, slab->carved);
        char *slot = (char *)extent->start + (size_t)index * slab->slot_size;
        slab_clear_front(extent, &order, index);
        slots_fill_carved(extent, slot, 1);
        slot_list_append(&list, (struct slot *)slot);
        slab->carved++;
    }
    slot_list_end(&list);
    slab->left += count;
    check(slab_counts_match(extent));
    order_stores();
    return list.head;
}

static struct slot *slab_carve(struct extent *extent, uint32_t most)
{
    bool is_mixed = MW_RANDOM || (MW_SEED && numbers_are_seeded);
    struct slab *slab = &extent->slab;
    check(slab->carved < slab->capacity && most > 0);
    /* A few at first: a thread that wants one slot should not pay for a page of them. In the secure build a page or
     * more: the larger the slab is the more, as those before it were used up. */
    size_t page = size_max(os_page_size / slab->slot_size, 1);
    size_t carved = slab->carved;
    size_t most_runs = strength.order_runs * page;
    size_t count = is_mixed
                       ? size_max(page, size_min(size_max(carved, slab->capacity / 4), most_runs))
                       : size_min(page, size_max(carved, CARVED_AT_FIRST));
    count = slab->was_touched ? most : count;
    count = size_min(size_min(count, most), slab->capacity - slab->carved);

    if (slab_is_scattered(extent)) {
        return slab_carve_scattered(extent, (uint32_t)count);
    }
    char *first = (char *)extent->start + (size_t)slab->carved * slab->slot_size;
    if (is_mixed) {
        return slab_carve_mixed(extent, first, (uint32_t)size_min(count, ORDER_SLOTS_MAX));
    }
    char *last = first + (count - 1) * slab->slot_size;
    for (char *at = first; at < last; at += slab->slot_size) {
        slot_set_next((struct slot *)at, (struct slot *)(at + slab->slot_size));
    }
    slot_set_next((struct slot *)last, NULL);
    slab->carved += (uint32_t)count;
    slab->left += (uint32_t)count;
    check(count > 0 && (uintptr_t)last + slab->slot_size <= extent_end(extent));
    check(slab_counts_match(extent));
    slots_fill_carved(extent, first, count);
    order_stores();
    return (struct slot *)first;
}

static NOINLINE void slab_cut_local(struct extent *extent, uint32_t count)
{
    struct slot *last = extent->slab.local;
    check(count > 0 && last != NULL);
    for (uint32_t i = 1; i < count; i++) {
        last = slab_next_slot_of_more(extent, last);
    }
    extent->slab.local = slab_next_slot(extent, last);
    extent->slab.left += count;
    slot_set_next(last, NULL);
    check(slab_counts_match(extent));
    check_slow(slab_is_valid(extent));
}

static void slab_lengthen_local(struct extent *extent, uint32_t most)
{
    struct slab *slab = &extent->slab;
    if (slab->carved - slab->left >= LENGTHEN_SLOTS || slab->carved == slab->capacity) {
        return;
    }
    uint32_t carved_before = slab->carved;
    struct slot *last = slab->local;
    for (uint32_t i = 1; i < slab->carved - slab->left; i++) {
        last = slab_next_slot_of_more(extent, last);
    }
    struct slot *more = slab_carve(extent, most);
    slab->left -= slab->carved - carved_before; /* not handed out, but free */
    slot_set_next(last, more);
    check(slab_counts_match(extent));
    check_slow(slab_is_valid(extent));
}

/* --- Frees from other threads ---------------------------------------------------------------- */

static void slab_absorb_remote(struct extent *extent)
{
    struct slab *slab = &extent->slab;
    uint32_t count;
    slab_close(extent);
    struct slot *list = slab_collect_remote(extent, &count);
    if (list == NULL) {
        return;
    }
    check(slab_used(extent) >= count);
    /* A walk over the list waits for lines of another CPU, one after the other: malloc, which looks at each slot,
     * meets them one at a time. */
    uint32_t own = slab->carved - slab_used(extent);
    bool is_shorter = !MW_TRACK && own < count;
    if (!is_shorter || own != 0) {
        struct slot *tail = is_shorter ? slab->local : list;
        for (uint32_t i = 1; i < (is_shorter ? own : count); i++) {
            tail = slab_next_slot_of_more(extent, tail);
        }
        slot_set_next(tail, is_shorter ? list : slab->local);
        order_stores();
    }
    if (!is_shorter || own == 0) {
        slab->local = list;
    }
    uint32_t used = slab_used(extent) - count;
    slab->bias = slab->bias < used ? slab->bias : used;
    slab->left = used - slab->bias;
    check(slab_used(extent) == used && slab_counts_match(extent));
    check_slow(slab_is_valid(extent));
}

static bool slab_try_own(struct extent *extent, struct heap *heap)
{
    check(heap != NULL && heap < OWNER_GUARDED); /* a heap, and none of the other owners */
    struct heap *expected = NULL;
    return atomic_replace(&extent->owner, &expected, heap); /* pairs with slab_disown */
}

#define SLOTS_SHARED 16u

/* Enough that the slow path is rare, few enough to waste little: between two refills a slab has a sixteenth free in the
 * mean. */
static uint32_t slab_slots_wanted(struct extent *extent)
{
    uint32_t wanted = extent->slab.capacity / 8;
    return wanted < 1 ? 1 : wanted;
}

static uint32_t slab_slots_shared(struct extent *extent)
{
    return (uint32_t)size_min(slab_slots_wanted(extent), SLOTS_SHARED);
}

static bool slab_needs_care(struct extent *extent, uint32_t count, uint32_t total)
{
    uint32_t used = atomic_get(&extent->used_at_last);
    uint32_t available = extent->slab.capacity - used + total;
    uint32_t wanted = slab_slots_shared(extent);
    return total >= used || (available >= wanted && available - count < wanted);
}

static bool slab_disown(struct extent *extent, struct heap *owner)
{
    check(extent->slab.place == SLAB_NONE || extent->slab.place == SLAB_SHARED);
    check(slab_used(extent) > 0 && slab_counts_match(extent));
    atomic_set(&extent->used_at_last, slab_used(extent));
    /* Others push first and look at the owner then; here it is the other way round, so one of the
     * two sees the other. */
    atomic_set_ordered(&extent->owner, NULL); /* pairs with slab_try_own, slab_push_remote */
    return atomic_get_ordered(&extent->remote) != 0 && slab_try_own(extent, owner);
}

/* --- Pools ----------------------------------------------------------------------------------- */

static void slab_pools_init(unsigned index)
{
    lock_init(&slab_pools[index].lock, LOCK_POOL);
}

static void slab_pools_lock(unsigned index)
{
    lock_take(&slab_pools[index].lock);
}

static void slab_pools_unlock(unsigned index, bool in_child)
{
    if (in_child) {
        lock_release_in_child(&slab_pools[index].lock);
    } else {
        lock_release(&slab_pools[index].lock);
    }
}

static void slab_share(struct extent *extent, struct heap *owner)
{
    struct slab_pool *pool = slab_pool_of(extent);
    struct slab *slab = &extent->slab;
    check(slab->place == SLAB_NONE && atomic_get(&extent->owner) == owner);
    check(!slab_is_full(extent) && slab_used(extent) > 0);
    lock_take(&pool->lock);
    slab->place = SLAB_SHARED;
    /* Fuller ones are used up first, so that the emptier ones can drain. */
    if (slab_used(extent) >= slab->capacity / 2) {
        list_push_front(&pool->slabs[slab->class], &extent->link);
    } else {
        list_push_back(&pool->slabs[slab->class], &extent->link);
    }
    atomic_add(&pool->count[slab->class], 1);
    slab_pools_note_use();
    check_slow(slab_pool_is_valid(pool, slab->class));
    lock_release(&pool->lock);
}

static void slab_unshare_locked(struct slab_pool *pool, struct extent *extent)
{
    check(lock_is_mine(&pool->lock) && pool == slab_pool_of(extent));
    check(extent->slab.place == SLAB_SHARED && atomic_get(&pool->count[extent->slab.class]) > 0);
    list_remove(&extent->link);
    extent->slab.place = SLAB_NONE;
    atomic_sub(&pool->count[extent->slab.class], 1);
    check_slow(slab_pool_is_valid(pool, extent->slab.class));
}

static void slab_unshare(struct extent *extent)
{
    struct slab_pool *pool = slab_pool_of(extent);
    lock_take(&pool->lock);
    slab_unshare_locked(pool, extent);
    lock_release(&pool->lock);
}

/* Whether so few slots of a shared slab are used that most positions begin a run of `span` free
 * ones. An estimate: others may be freeing. */
static bool slab_is_sparse(struct extent *extent, uint32_t span)
{
    uint32_t used = atomic_get(&extent->used_at_last);
    uint32_t remote = list_word_length(atomic_get(&extent->remote));
    uint32_t left = used > remote ? used - remote : 0;
    return left * size_max(span, 4) <= extent->slab.capacity;
}

static struct extent *slab_take_shared(struct arena *arena, unsigned class, struct heap *heap)
{
    struct slab_pool *pool = slab_pool_at(arena);
    if (!slab_pools_are_used() || atomic_get(&pool->count[class]) == 0) {
        return NULL;
    }
    struct extent *taken = NULL;
    lock_take(&pool->lock);
    struct link *at = list_first(&pool->slabs[class]);
    for (unsigned tries = 0; tries < SHARED_TRIES && at != &pool->slabs[class]; tries++) {
        struct extent *extent = container_of(at, struct extent, link);
        at = at->next;
        /* A thread that frees into it may own it already, and waits for the lock. */
        check(extent->slab.class == class && extent->slab.place == SLAB_SHARED);
        if (slab_try_own(extent, heap)) {
            slab_unshare_locked(pool, extent);
            taken = extent;
            break;
        }
    }
    lock_release(&pool->lock);
    return taken;
}

/* --- Validity -------------------------------------------------------------------------------- */

static bool slab_pool_is_valid(struct slab_pool *pool, unsigned class)
{
    uint32_t count = 0;
    struct link *head = &pool->slabs[class];
    check(lock_is_mine(&pool->lock));
    for (struct link *at = list_first(head); at != head; at = at->next) {
        struct extent *extent = container_of(at, struct extent, link);
        require(extent->slab.class == class && slab_pool_of(extent) == pool);
        require(at->next->prev == at);
        count++;
    }
    return count == atomic_get(&pool->count[class]);
}

static bool slab_counts_match(struct extent *extent)
{
    struct slab *slab = &extent->slab;
    return slab_used(extent) <= slab->carved && slab->carved <= slab->capacity &&
           slab->slot_size == class_size(slab->class);
}

static bool slab_is_valid(struct extent *extent)
{
    struct slab *slab = &extent->slab;
    uint32_t local = 0;
    for (struct slot *slot = slab->local; slot != NULL; slot = slot_next(slot)) {
        require(slab_has_slot_at(extent, slot));
        require(slab_index(extent, slot) < slab_carved_end(extent));
        require(++local <= slab->carved);
    }
    for (uintptr_t at = extent->start; at < extent_end(extent); at += GRANULE) {
        require(pagemap_find((void *)at) == extent);
    }
    require(extent->slots == extent->start && extent->class == slab->class);
    return extent_state(extent) == EXTENT_ACTIVE && slab->carved <= slab->capacity &&
           slab_used(extent) + local == slab->carved;
}
