/* SPDX-License-Identifier: MIT */
#include "cache.h"

#include "../memory/meta.h"

#include <errno.h>

#define CACHES_MAX 4094u

/* Blocks of a class at most: so many bytes, but no fewer and no more blocks than these. */
#define CACHED_BYTES (64 * KiB)
#define CACHED_FEWEST 8u
#define CACHED_MOST 200u

struct cache {
    struct slot *list[CLASSES];
    uint16_t count[CLASSES];
    bool is_in_use; /* lock: table */
};

static struct {
    _Atomic(struct cache *) all[CACHES_MAX]; /* const once set */
    unsigned made;                           /* lock: table */
} caches IN_SECTION(caches);

/* The first one that is not in use; *id is its identity. */
static struct cache *cache_unused_locked(unsigned *id)
{
    check(lock_is_mine(&table_lock));
    for (*id = 0; *id < caches.made; ++*id) {
        struct cache *cache = atomic_get(&caches.all[*id]);
        if (!cache->is_in_use) {
            return cache;
        }
    }
    struct cache *cache = caches.made < CACHES_MAX ? meta_alloc(sizeof *cache) : NULL;
    if (cache != NULL) {
        atomic_set_release(&caches.all[caches.made++], cache); /* pairs with cache_at */
    }
    return cache;
}

static int cache_create(unsigned *id)
{
    lock_take(&table_lock);
    struct cache *cache = cache_unused_locked(id);
    if (cache != NULL) {
        cache->is_in_use = true;
    }
    lock_release(&table_lock);
    return cache != NULL ? 0 : EFAULT;
}

static struct cache *cache_at(unsigned id)
{
    struct cache *cache = NULL;
    if (id < CACHES_MAX) {
        cache = atomic_get_acquire(&caches.all[id]); /* pairs with cache_unused_locked */
    }
    return cache != NULL && cache->is_in_use ? cache : NULL;
}

/* Takes the first block of a list. */
static void *cache_pop(struct cache *cache, unsigned class)
{
    struct slot *slot = cache->list[class];
    cache->list[class] = slot_next(slot);
    cache->count[class]--;
    check((cache->count[class] == 0) == (cache->list[class] == NULL));
    return slot;
}

/* Gives blocks of a class back until `keep` are left. They were counted as freed when they came. */
static void cache_reduce(struct cache *cache, unsigned class, uint16_t keep)
{
    while (cache->count[class] > keep) {
        void *block = cache_pop(cache, class);
        thread_count_resize((size_t)0 - mw_malloc_usable_size(block), 0);
        mw_free(block);
    }
}

static int cache_flush(unsigned id)
{
    struct cache *cache = cache_at(id);
    if (cache == NULL) {
        return EFAULT;
    }
    for (unsigned class = 0; class < CLASSES; class ++) {
        cache_reduce(cache, class, 0);
        check(cache->list[class] == NULL);
    }
    return 0;
}

static int cache_destroy(unsigned id)
{
    int error = cache_flush(id);
    if (error == 0) {
        lock_take(&table_lock);
        cache_at(id)->is_in_use = false;
        lock_release(&table_lock);
    }
    return error;
}

static void *cache_take(struct cache *cache, unsigned class)
{
    if (cache->list[class] == NULL) {
        return NULL;
    }
    void *block = cache_pop(cache, class);
    thread_count_resize(0, class_size(class));
    return alloc_filled(block, class_size(class), false);
}

/* In secure and debug builds a block that is freed is free: no cache holds it. */
static bool cache_put(struct cache *cache, void *block)
{
    struct extent *extent = pagemap_find(block);
    if (MW_SLOT_BITMAP || block_held_size("free", block) == 0 || !extent_is_slab(extent) ||
        slab_is_common(extent) || extent_is_direct(extent)) {
        return false;
    }
    unsigned class = extent->slab.class;
    if (cache->list[class] == block) {
        harden_bad_block("free", extent, block);
    }
    size_t most = size_max(size_min(CACHED_BYTES / class_size(class), CACHED_MOST), CACHED_FEWEST);
    if (cache->count[class] >= most) {
        cache_reduce(cache, class, (uint16_t)(most / 2));
    }
    struct slot *slot = block;
    fill_freed(slot, class_size(class));
    slot_push(&cache->list[class], slot);
    cache->count[class]++;
    check(cache->is_in_use && cache->count[class] <= most);
    thread_count_resize(class_size(class), 0);
    return true;
}
