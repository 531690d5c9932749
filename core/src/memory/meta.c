/* SPDX-License-Identifier: MIT */
#include "meta.h"

/* Small, so that a small program pays little; growth is amortised by the chunk after the first. */
#define META_CHUNK (64 * KiB)
#define META_CHUNK_NEXT (512 * KiB)

#define SMALLEST_PAGE 4096u

/* What is left for descriptors by who takes modestly. */
#define META_RESERVE (8 * KiB)

static struct {
    struct lock lock;
    char *next; /* lock: meta */
    char *end;  /* lock: meta */
    _Atomic size_t bytes;
} meta = {.lock = LOCK_INITIALIZER(LOCK_META)};

static size_t meta_bytes(void)
{
    return atomic_get(&meta.bytes);
}

static void meta_count_bytes(size_t size)
{
    atomic_add(&meta.bytes, size);
}

/* What is left of the old chunk is lost: it is less than the object that did not fit. */
static bool meta_add_chunk_locked(size_t size)
{
    check(lock_is_mine(&meta.lock) && size != 0);
    size_t guard = MW_META_GUARD ? os_page_size : 0;
    size_t wanted = atomic_get(&meta.bytes) == 0 ? META_CHUNK : META_CHUNK_NEXT;
    size_t chunk = align_up(size_max(size, wanted), os_page_size);
    char *start = os_map(NULL, chunk + 2 * guard);
    if (start == NULL && chunk > align_up(size, os_page_size)) {
        /* Perhaps there is room for the one object. */
        chunk = align_up(size, os_page_size);
        start = os_map(NULL, chunk + 2 * guard);
    }
    if (start == NULL) {
        return false;
    }
    if (guard != 0) { /* where the kernel refuses one, as behind a filter, there is none */
        os_protect(start, guard);
        os_protect(start + guard + chunk, guard);
    }
    meta.next = start + guard;
    meta.end = meta.next + chunk;
    check((size_t)(meta.end - meta.next) >= size && meta.end == start + guard + chunk);
    meta_count_bytes(chunk + 2 * guard);
    return true;
}

static void meta_give(void *start, size_t size)
{
    check((uintptr_t)start % CACHE_LINE == 0 && size % CACHE_LINE == 0);
    lock_take(&meta.lock);
    if (size > (size_t)(meta.end - meta.next)) {
        meta.next = start;
        meta.end = meta.next + size;
    }
    lock_release(&meta.lock);
}

static void *meta_alloc_leaving(size_t size, size_t alignment, size_t rest)
{
    check(alignment >= CACHE_LINE && os_page_size % alignment == 0);
    size = align_up(size, CACHE_LINE);
    char *result = NULL;
    lock_take(&meta.lock);
    size_t gap = -(uintptr_t)meta.next & (alignment - 1);
    if ((size_t)(meta.end - meta.next) >= gap + size + rest) {
        result = meta.next + gap;
    } else if (meta_add_chunk_locked(size + rest)) {
        result = meta.next;
    }
    if (result != NULL) {
        meta.next = result + size;
    }
    check(meta.next <= meta.end && (uintptr_t)result % alignment == 0);
    lock_release(&meta.lock);
    return result;
}

static void *meta_alloc(size_t size)
{
    return meta_alloc_leaving(size, CACHE_LINE, 0);
}

static void *meta_alloc_modestly(size_t size)
{
    return meta_alloc_leaving(size, CACHE_LINE, META_RESERVE);
}

static void *meta_alloc_at_page(size_t size)
{
    return meta_alloc_leaving(size, SMALLEST_PAGE, 0);
}
