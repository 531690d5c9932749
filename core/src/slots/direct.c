/* SPDX-License-Identifier: MIT */
#include "direct.h"

#include "../arena/limit.h"
#include "../arena/purge.h"
#include "../memory/meta.h"
#include "../profile/sample.h"

/* Calls between two looks at the clock. */
#define DIRECT_TICK_CALLS 256

#define DIRECTS_MAX (ARENAS_MAX + ARENA_NUMBERS)

/* By index of the arena. */
static _Atomic(struct direct *) directs[DIRECTS_MAX] IN_SECTION(directs); /* const once set */

/* One more than the largest index that has a pool. */
static _Atomic unsigned directs_end; /* lock: table */

static struct direct *direct_find(struct arena *arena)
{
    return atomic_get_acquire(&directs[arena->index]); /* pairs with direct_open */
}

static struct direct *direct_of(struct extent *extent)
{
    return atomic_get_acquire(&directs[extent_arena(extent)]); /* pairs with direct_open */
}

static struct direct *direct_open(struct arena *arena)
{
    check(lock_is_mine(&table_lock));
    struct direct *direct = direct_find(arena);
    if (direct == NULL) {
        direct = meta_alloc(sizeof *direct);
        if (direct == NULL) {
            return NULL;
        }
        lock_init(&direct->lock, LOCK_DIRECT);
        direct->arena = arena;
        atomic_set_release(&directs[arena->index], direct); /* pairs with direct_find */
        if (arena->index >= atomic_get(&directs_end)) {
            atomic_set_release(&directs_end, arena->index + 1u); /* pairs with directs_tick */
        }
    }
    return direct;
}

/* --- Fork ------------------------------------------------------------------------------------- */

/* Who is in a hook may wait for any other pool, so fork waits for none while it has one: it needs a moment at which all are
 * free. Whoever has none lets it go first, else that moment might never come. */
static _Atomic bool fork_wants_directs; /* lock: table */

static void direct_lock(struct direct *direct)
{
    if (unlikely(atomic_get(&fork_wants_directs)) && !lock_is_mine(&table_lock) &&
        !directs_are_mine()) {
        lock_take(&table_lock); /* fork has it until it is over */
        lock_release(&table_lock);
    }
    lock_take(&direct->lock);
}

static bool directs_have(bool (*visit)(struct lock *))
{
    bool any = false;
    unsigned end = atomic_get_acquire(&directs_end); /* pairs with direct_open */
    for (unsigned i = 0; i < end; i++) {
        struct direct *direct = atomic_get_acquire(&directs[i]); /* pairs with direct_open */
        any |= direct != NULL && visit(&direct->lock);
    }
    return any;
}

static void directs_visit(void (*visit)(struct lock *))
{
    unsigned end = atomic_get_acquire(&directs_end); /* pairs with direct_open */
    for (unsigned i = 0; i < end; i++) {
        struct direct *direct = atomic_get_acquire(&directs[i]); /* pairs with direct_open */
        if (direct != NULL) {
            visit(&direct->lock);
        }
    }
}

static void release_if_mine(struct lock *lock)
{
    if (lock_is_mine(lock)) {
        lock_release(lock);
    }
}

/* Takes all that are free. Returns the first that another thread has; NULL: this one has them all. */
static struct lock *directs_try_take(void)
{
    unsigned end = atomic_get_acquire(&directs_end); /* pairs with direct_open */
    for (unsigned i = 0; i < end; i++) {
        struct direct *direct = atomic_get_acquire(&directs[i]); /* pairs with direct_open */
        if (direct != NULL && !lock_is_mine(&direct->lock) && !lock_try_take(&direct->lock)) {
            return &direct->lock;
        }
    }
    return NULL;
}

static void directs_take(void)
{
    check(lock_is_mine(&table_lock) && !directs_are_mine()); /* and no pool is made */
    atomic_set(&fork_wants_directs, true);
    for (struct lock *busy; (busy = directs_try_take()) != NULL;) {
        directs_visit(release_if_mine);
        lock_take(busy);
    }
    atomic_set(&fork_wants_directs, false);
}

/* --- Time ------------------------------------------------------------------------------------- */

static bool slab_is_listed(struct extent *extent)
{
    return extent->link.next != NULL;
}

/* Makes an empty slab free pages. */
static void direct_drop_slab_locked(struct direct *direct, struct extent *extent)
{
    check(lock_is_mine(&direct->lock) && slab_used(extent) == 0 && extent_is_direct(extent));
    if (slab_is_listed(extent)) {
        list_remove(&extent->link);
    }
    extent->slab.place = SLAB_NONE;
    harden_forget_links(extent);
    slab_retire(extent);
    if (direct->arena->is_explicit) {
        explicit_free(direct->arena, extent);
    } else {
        arena_free(direct->arena, extent);
    }
}

static void direct_drop_empty_locked(struct direct *direct)
{
    for (unsigned class = 0; class < CLASSES; class ++) {
        struct link *head = &direct->slabs[class];
        for (struct link *at = list_first(head), *next; at != head; at = next) {
            struct extent *extent = container_of(at, struct extent, link);
            next = at->next;
            if (slab_used(extent) == 0) {
                direct_drop_slab_locked(direct, extent);
            }
        }
    }
}

static void direct_decay_locked(struct direct *direct, uint64_t now_ms)
{
    if (direct->arena->is_explicit) {
        explicit_tick(direct->arena, now_ms);
    }
}

static void direct_note_call_locked(struct direct *direct)
{
    if (unlikely(--direct->until_tick < 0)) {
        direct->until_tick = DIRECT_TICK_CALLS;
        direct_decay_locked(direct, clock_look());
    }
}

static void direct_decay(struct direct *direct, uint64_t now_ms)
{
    direct_lock(direct);
    direct_decay_locked(direct, now_ms);
    lock_release(&direct->lock);
}

static void direct_purge(struct direct *direct)
{
    direct_lock(direct);
    direct_drop_empty_locked(direct);
    if (direct->arena->is_explicit) {
        explicit_purge(direct->arena);
    }
    lock_release(&direct->lock);
}

static bool directs_are_mine(void)
{
    unsigned end = atomic_get_acquire(&directs_end); /* pairs with direct_open */
    for (unsigned i = 0; i < end; i++) {
        struct direct *direct = atomic_get_acquire(&directs[i]); /* pairs with direct_open */
        if (direct != NULL && lock_is_mine(&direct->lock)) {
            return true;
        }
    }
    return false;
}

static bool direct_is_in_hook(void)
{
    return unlikely(hooks_run()) && directs_are_mine();
}

static void directs_tick(uint64_t now_ms)
{
    unsigned end = atomic_get_acquire(&directs_end); /* pairs with direct_open */
    if (direct_is_in_hook()) {
        return;
    }
    for (unsigned i = 0; i < end; i++) {
        struct direct *direct = atomic_get_acquire(&directs[i]); /* pairs with direct_open */
        if (direct == NULL || !lock_try_take(&direct->lock)) {
            continue;
        }
        if (direct->until_tick == direct->until_tick_before) {
            direct_drop_empty_locked(direct); /* nobody called in the meantime */
        }
        direct->until_tick_before = direct->until_tick;
        if (limit_is_short() && direct->arena->is_explicit) {
            explicit_purge(direct->arena);
        } else {
            direct_decay_locked(direct, now_ms);
        }
        lock_release(&direct->lock);
    }
}

static void directs_give_back(void)
{
    unsigned end = atomic_get_acquire(&directs_end); /* pairs with direct_open */
    /* A hook allocates; or locks are held that come later, which harms nobody who does not wait, but debug
     * builds mind. */
    if (directs_are_mine() || MW_LOCK_ORDER) {
        return;
    }
    for (unsigned i = 0; i < end; i++) {
        struct direct *direct = atomic_get_acquire(&directs[i]); /* pairs with direct_open */
        if (direct != NULL && direct->arena->is_explicit && direct->arena->hooks == NULL &&
            lock_try_take(&direct->lock)) {
            direct_drop_empty_locked(direct);
            explicit_purge(direct->arena);
            lock_release(&direct->lock);
        }
    }
}

static void directs_purge(void)
{
    unsigned end = atomic_get_acquire(&directs_end); /* pairs with direct_open */
    if (direct_is_in_hook()) {
        return;
    }
    for (unsigned i = 0; i < end; i++) {
        struct direct *direct = atomic_get_acquire(&directs[i]); /* pairs with direct_open */
        if (direct != NULL && !lock_is_mine(&direct->lock)) {
            direct_purge(direct);
        }
    }
}

/* --- Slots ------------------------------------------------------------------------------------ */

static struct extent *direct_take_pages_locked(struct direct *direct, size_t pages,
                                               size_t alignment)
{
    check(lock_is_mine(&direct->lock));
    return direct->arena->is_explicit ? explicit_alloc(direct->arena, pages, alignment)
                                      : arena_alloc(direct->arena, pages, alignment);
}

static struct extent *direct_add_slab_locked(struct direct *direct, unsigned class)
{
    check(list_is_empty(&direct->slabs[class])); /* else one has a free slot */
    size_t pages = class_slab_pages(class, direct->made[class]);
    struct extent *extent = direct_take_pages_locked(direct, pages, os_page_size);
    if (extent == NULL) {
        pages = class_least_pages(class);
        extent = direct_take_pages_locked(direct, pages, os_page_size);
    }
    if (extent == NULL) {
        return NULL;
    }
    slab_create(extent, class, OWNER_DIRECT);
    extent->slab.place = SLAB_DIRECT;
    direct->made[class] = (uint8_t)(direct->made[class] + (direct->made[class] < 16));
    direct->slabs_made[class]++;
    list_push_front(&direct->slabs[class], &extent->link);
    return extent;
}

static struct slot *direct_take_slot_locked(struct direct *direct, struct extent *extent)
{
    struct slab *slab = &extent->slab;
    check(lock_is_mine(&direct->lock) && direct_of(extent) == direct);
    check(slab->place == SLAB_DIRECT && !slab_is_full(extent));
    if (slab->local == NULL) {
        uint32_t before = slab->carved;
        slab->local = slab_carve(extent, slab->capacity - slab->carved);
        slab->left -= slab->carved - before; /* the program does not hold them yet */
    }
    struct slot *slot = slab->local;
    harden_slot_leaves(slot, slab->class);
    slab->local = slab_next_slot(extent, slot);
    slab->left++;
    if (slab_is_full(extent)) {
        list_remove(&extent->link);
    }
    direct->blocks[slab->class]++;
    check(slab_counts_match(extent));
    return slot;
}

static void *direct_alloc_slot(struct direct *direct, unsigned class, size_t size)
{
    struct slot *slot = NULL;
    direct_lock(direct);
    direct_note_call_locked(direct);
    struct link *head = &direct->slabs[class];
    struct extent *extent = list_is_empty(head) ? direct_add_slab_locked(direct, class)
                                                : container_of(head->next, struct extent, link);
    if (extent != NULL) {
        slot = direct_take_slot_locked(direct, extent);
    }
    check_slow(direct_is_valid(direct));
    lock_release(&direct->lock);
    if (slot != NULL) {
        harden_slot_taken(pagemap_find(slot), slot, size, 0);
    }
    return slot;
}

static void direct_free_slot_locked(struct direct *direct, struct extent *extent, struct slot *slot)
{
    struct slab *slab = &extent->slab;
    check(lock_is_mine(&direct->lock) && direct_of(extent) == direct);
    check(slab->place == SLAB_DIRECT && slab_has_slot_at(extent, slot));
    if (unlikely(slab->local == slot || slab->left == 0)) {
        harden_bad_block("free", extent, slot);
    }
    bool was_full = slab_is_full(extent);
    slot_push(&slab->local, slot);
    slab->left--;
    /* An empty slab of a small class stays while it is the only one with free slots. */
    struct link *head = &direct->slabs[slab->class];
    bool is_only = list_is_empty(head) || (head->next == &extent->link && head->prev == head->next);
    if (slab->left == 0 && (class_size(slab->class) > SMALL_MAX || !is_only)) {
        direct_drop_slab_locked(direct, extent);
    } else if (was_full) {
        list_push_front(head, &extent->link);
    }
}

/* --- Large blocks ----------------------------------------------------------------------------- */

static struct extent *direct_alloc_pages(struct direct *direct, size_t size, size_t alignment)
{
    direct_lock(direct);
    direct_note_call_locked(direct);
    struct extent *extent = direct_take_pages_locked(direct, large_rounded_pages(size),
                                                     size_max(alignment, os_page_size));
    if (extent != NULL) {
        check(!extent_is_slab(extent));
        atomic_set(&extent->owner, OWNER_DIRECT);
        pagemap_set(extent->start, extent); /* no list takes it */
        direct->large_blocks[large_class_of(extent_pages(extent), extent->is_huge)]++;
    }
    check_slow(direct_is_valid(direct));
    lock_release(&direct->lock);
    return extent;
}

static bool direct_resize_locked(struct direct *direct, struct extent *extent, size_t size,
                                 bool must_stay)
{
    if (!direct->arena->is_explicit) {
        return must_stay ? large_try_resize_in_place(extent, size) : large_try_resize(extent, size);
    }
    return size > SLOT_MAX && explicit_try_resize(direct->arena, extent, large_rounded_pages(size));
}

static bool direct_try_resize(struct extent *extent, size_t size, bool must_stay)
{
    struct direct *direct = direct_of(extent);
    direct_lock(direct);
    direct_note_call_locked(direct);
    unsigned before = large_class_of(extent_pages(extent), extent->is_huge);
    bool done = direct_resize_locked(direct, extent, size, must_stay);
    unsigned class = large_class_of(extent_pages(extent), extent->is_huge);
    direct->large_blocks[class] += class != before; /* counts as freed and allocated anew */
    check(!done || extent_size(extent) >= size);
    check_slow(direct_is_valid(direct));
    lock_release(&direct->lock);
    return done;
}

static void direct_free(struct extent *extent, void *block)
{
    struct direct *direct = direct_of(extent);
    check(extent_is_direct(extent) && extent_state(extent) == EXTENT_ACTIVE);
    if (extent_is_slab(extent)) {
        harden_slot_freed(extent, block);
    }
    direct_lock(direct);
    direct_note_call_locked(direct);
    if (extent_is_slab(extent)) {
        direct_free_slot_locked(direct, extent, block);
    } else {
        check((uintptr_t)block == extent->start);
        extent_make_plain(extent);
        if (direct->arena->is_explicit) {
            explicit_free(direct->arena, extent);
        } else {
            arena_free(direct->arena, extent);
        }
    }
    check_slow(direct_is_valid(direct));
    lock_release(&direct->lock);
}

/* --- Arenas of the program -------------------------------------------------------------------- */

static struct arena *direct_create_arena(unsigned shared, extent_hooks_t *hooks)
{
    struct arena *arena = explicit_new(shared, hooks != NULL);
    if (arena == NULL || direct_open(arena) == NULL) {
        return NULL;
    }
    check(!atomic_get(&arena->is_in_use) && atomic_get(&arena->bound) == 0);
    arena->hooks = hooks;
    atomic_set_release(&arena->is_in_use, true); /* pairs with arena_numbered */
    return arena;
}

static void direct_reset_locked(struct direct *direct)
{
    struct arena *arena = direct->arena;
    check(arena->is_explicit && lock_is_mine(&direct->lock));
    for (struct extent *extent = explicit_active(arena), *next; extent != NULL; extent = next) {
        next = extent->bin_next;
        if (extent_is_slab(extent)) {
            extent->slab.left = 0;
            extent->slab.local = NULL;
            direct_drop_slab_locked(direct, extent);
        } else {
            if (unlikely(extent_is_sampled(extent))) {
                sample_drop(extent);
            }
            extent_make_plain(extent);
            explicit_free(arena, extent);
        }
    }
    memset(direct->made, 0, sizeof direct->made);
    check(atomic_get(&arena->active_pages) == 0);
    check_slow(direct_is_valid(direct));
}

static void direct_reset(struct direct *direct)
{
    direct_lock(direct);
    direct_reset_locked(direct);
    lock_release(&direct->lock);
}

static void direct_destroy_arena(struct direct *direct)
{
    check(lock_is_mine(&table_lock) && atomic_get(&direct->arena->is_in_use));
    direct_lock(direct);
    direct_reset_locked(direct);
    explicit_drop_all(direct->arena);
    direct->arena->hooks = NULL;
    atomic_set(&direct->arena->is_in_use, false);
    lock_release(&direct->lock);
}

static extent_hooks_t *direct_set_hooks(struct direct *direct, extent_hooks_t *hooks)
{
    direct_lock(direct);
    extent_hooks_t *before = direct->arena->hooks;
    direct->arena->hooks = hooks;
    lock_release(&direct->lock);
    return before;
}

/* --- Validity --------------------------------------------------------------------------------- */

static bool direct_is_valid(struct direct *direct)
{
    check(lock_is_mine(&direct->lock));
    for (unsigned class = 0; class < CLASSES; class ++) {
        struct link *head = &direct->slabs[class];
        for (struct link *at = list_first(head); at != head; at = at->next) {
            struct extent *extent = container_of(at, struct extent, link);
            require(extent_is_direct(extent) && extent_state(extent) == EXTENT_ACTIVE);
            require(arena_of(extent) == direct->arena && extent->slab.place == SLAB_DIRECT);
            require(extent->slab.class == class && extent->slab.bias == 0);
            require(slab_is_valid(extent) && !slab_is_full(extent));
        }
    }
    return true;
}

static void directs_check(void)
{
    unsigned end = atomic_get_acquire(&directs_end); /* pairs with direct_open */
    for (unsigned i = 0; i < end; i++) {
        struct direct *direct = atomic_get_acquire(&directs[i]); /* pairs with direct_open */
        if (direct != NULL) {
            direct_lock(direct);
            require(direct_is_valid(direct));
            lock_take(&direct->arena->lock);
            require(arena_is_valid(direct->arena));
            lock_release(&direct->arena->lock);
            lock_release(&direct->lock);
        }
    }
}
