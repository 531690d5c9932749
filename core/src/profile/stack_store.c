/* SPDX-License-Identifier: MIT */
#include "stack_store.h"

#include "../memory/meta.h"
#include "unwind.h"

#include <string.h>

#define STORE_BUCKETS (MW_TRACK ? 32768u : 8192u) /* in the debug build each call has a stack */
#define STORE_CHUNKS 2048u
#define CHUNK_UNITS 32768u
#define UNIT sizeof(uint64_t)

/* Initialised data would be pages of the file; a program that keeps no stacks touches none of this. */
static struct {
    _Atomic(_Atomic(struct call_stack *) *) buckets;
    _Atomic(struct call_stack *) newest;
    _Atomic uint32_t used; /* units, of all chunks; those at the end of a chunk may be lost */
    _Atomic(char *) chunks[STORE_CHUNKS];
} store IN_SECTION(stacks);

static_assert((uint64_t)STORE_CHUNKS * CHUNK_UNITS <= UINT32_MAX, "every place has a number");
static_assert(sizeof(struct call_stack) + UNWIND_MOST * sizeof(uintptr_t) < CHUNK_UNITS * UNIT / 8,
              "little is lost at the end of a chunk");

/* Maps what a place in the store leads to, unless another thread was faster. */
static bool store_map(_Atomic(char *) *place, size_t size)
{
    char *expected = NULL;
    char *mapped = os_map(NULL, align_up(size, os_page_size));
    if (mapped == NULL) {
        return false;
    }
    if (!atomic_replace(place, &expected, mapped)) { /* pairs with store_get */
        os_unmap(mapped, align_up(size, os_page_size));
        return true;
    }
    meta_count_bytes(align_up(size, os_page_size));
    return true;
}

static char *store_chunk(uint32_t id)
{
    return atomic_get_acquire(&store.chunks[id / CHUNK_UNITS]); /* pairs with store_map */
}

static struct call_stack *store_get(uint32_t id)
{
    check(id <= atomic_get(&store.used));
    char *chunk = id != 0 ? store_chunk(id) : NULL;
    return chunk != NULL ? (struct call_stack *)(chunk + id % CHUNK_UNITS * UNIT) : NULL;
}

static struct call_stack *store_newest(void)
{
    return atomic_get_acquire(&store.newest); /* pairs with store_publish */
}

/* A place for a call stack, zero; 0 if there is none. */
static uint32_t store_reserve(size_t count)
{
    size_t size = sizeof(struct call_stack) + count * sizeof(uintptr_t);
    uint32_t units = (uint32_t)(align_up(size, UNIT) / UNIT);
    uint32_t used = atomic_get(&store.used);
    uint32_t start;
    do {
        start = used != 0 ? used : 1;
        if (start % CHUNK_UNITS + units > CHUNK_UNITS) {
            start = (uint32_t)align_up(start, CHUNK_UNITS);
        }
        if (start / CHUNK_UNITS >= STORE_CHUNKS) {
            return 0;
        }
    } while (!atomic_replace(&store.used, &used, start + units));
    _Atomic(char *) *chunk = &store.chunks[start / CHUNK_UNITS];
    bool is_there = atomic_get(chunk) != NULL || store_map(chunk, CHUNK_UNITS * UNIT);
    return is_there ? start : 0;
}

static uint64_t hash_of(const uintptr_t *frames, size_t count)
{
    uint64_t hash = count;
    for (size_t i = 0; i < count; i++) {
        hash = (hash ^ frames[i]) * 0x9e3779b97f4a7c15u;
        hash ^= hash >> 29;
    }
    return hash;
}

static struct call_stack *find_from(struct call_stack *at, uint64_t hash, const uintptr_t *frames,
                                    size_t count)
{
    for (; at != NULL; at = at->next) {
        if (at->hash == hash && at->count == count &&
            memcmp(at->frames, frames, count * sizeof *frames) == 0) {
            return at;
        }
    }
    return NULL;
}

static void store_publish(struct call_stack *stack)
{
    struct call_stack *newest = atomic_get(&store.newest);
    do {
        stack->older = newest;
    } while (!atomic_replace(&store.newest, &newest, stack)); /* pairs with store_newest */
}

static uint32_t store_put(const uintptr_t *frames, size_t count)
{
    check(count <= UNWIND_MOST);
    if (atomic_get(&store.buckets) == NULL &&
        !store_map((_Atomic(char *) *)&store.buckets, STORE_BUCKETS * sizeof(void *))) {
        return 0;
    }
    uint64_t hash = hash_of(frames, count);
    _Atomic(struct call_stack *) *bucket =
        &atomic_get_acquire(&store.buckets)[hash % STORE_BUCKETS]; /* pairs with store_map */
    struct call_stack *first = atomic_get_acquire(bucket); /* pairs with the exchange below */
    struct call_stack *found = find_from(first, hash, frames, count);
    if (found != NULL) {
        return found->id;
    }
    uint32_t id = store_reserve(count);
    struct call_stack *stack = store_get(id);
    if (stack == NULL) {
        return 0;
    }
    check(stack->id == 0 && stack->count == 0); /* a place is given once */
    stack->hash = hash;
    stack->id = id;
    stack->count = (uint32_t)count;
    memcpy(stack->frames, frames, count * sizeof *frames);
    do {
        /* What was put meanwhile may be the same; then the place stays unused. */
        found = find_from(first, hash, frames, count);
        if (found != NULL) {
            return found->id;
        }
        stack->next = first;
    } while (!atomic_replace(bucket, &first, stack)); /* pairs with the load above */
    store_publish(stack);
    return id;
}
