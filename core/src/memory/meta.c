/* SPDX-License-Identifier: MIT */
#include "meta.h"

#include "../settings/conf.h"

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
    _Atomic size_t huge_pages;
} meta = {.lock = LOCK_INITIALIZER(LOCK_META)};

static size_t meta_bytes(void)
{
    return atomic_get(&meta.bytes);
}

static void meta_count_bytes(size_t size)
{
    atomic_add(&meta.bytes, size);
}

/* --- Huge pages ------------------------------------------------------------------------------- */

/* In the order of conf.def. */
enum { HUGE_NEVER, HUGE_AUTO, HUGE_ALWAYS };

/* With metadata_thp:auto, what there is without huge pages. */
#define META_WITHOUT_HUGE (4 * MiB)

static long meta_huge; /* const after the start */

static void meta_load(void)
{
    meta_huge = conf_keeps_any() ? conf_value(conf_at(CONF_metadata_thp)) : HUGE_NEVER;
}

static bool meta_wants_huge(void)
{
    return unlikely(meta_huge != HUGE_NEVER) &&
           (meta_huge == HUGE_ALWAYS || meta_bytes() >= META_WITHOUT_HUGE);
}

static void meta_ask_for_huge(void *start, size_t size)
{
    check((uintptr_t)start % META_HUGE == 0 && size % META_HUGE == 0);
    if (os_ask_for_huge_pages(start, size)) {
        atomic_add(&meta.huge_pages, size / META_HUGE);
    }
}

static size_t meta_huge_pages(void)
{
    return atomic_get(&meta.huge_pages);
}

/* A chunk with room for guards on both sides, what is between them aligned; NULL if there is none. */
static char *meta_map_huge(size_t chunk, size_t guard)
{
    size_t around = guard != 0 ? META_HUGE : 0;
    char *start = os_map_aligned(NULL, chunk + 2 * around, META_HUGE);
    if (start == NULL) {
        return NULL;
    }
    meta_ask_for_huge(start + around, chunk);
    if (around > guard) {
        os_unmap(start, around - guard);
        os_unmap(start + around + chunk + guard, around - guard);
    }
    return start + around - guard;
}

/* --- Chunks ----------------------------------------------------------------------------------- */

/* What is left of the old chunk is lost: it is less than the object that did not fit. */
static bool meta_add_chunk_locked(size_t size)
{
    check(lock_is_mine(&meta.lock) && size != 0);
    size_t guard = MW_META_GUARD ? os_page_size : 0;
    size_t wanted = atomic_get(&meta.bytes) == 0 ? META_CHUNK : META_CHUNK_NEXT;
    size_t chunk = align_up(size_max(size, wanted), os_page_size);
    char *start = NULL;
    if (meta_wants_huge()) {
        start = meta_map_huge(align_up(chunk, META_HUGE), guard);
        chunk = start != NULL ? align_up(chunk, META_HUGE) : chunk;
    }
    if (start == NULL) {
        start = os_map(NULL, chunk + 2 * guard);
    }
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
