/* SPDX-License-Identifier: MIT
 *
 * Hooks that keep a list of all extents and check each call against it. They allocate and free in every call, as
 * hooks of real programs do: with malloc, and from other arenas that they name.
 */
#ifndef TEST_JEMALLOC_WATCH_H
#define TEST_JEMALLOC_WATCH_H

#include <jemalloc/jemalloc.h>

#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "../test.h"

enum hook { ALLOC, DALLOC, DESTROY, COMMIT, DECOMMIT, LAZY, FORCED, SPLIT, MERGE, HOOKS };

enum { EXTENTS = 20000 };

/* An arena's hooks, and what they know. jemalloc hands the first member back. */
struct watch {
    extent_hooks_t hooks;
    int says_no[HOOKS]; /* 1: always; n: every nth call */
    unsigned calls[HOOKS];
    bool comes_without_memory; /* alloc gives address space that has to be committed */
    unsigned arena;
    pthread_mutex_t mutex; /* of the list: arenas of several threads share no watch */
    struct {
        char *start;
        size_t size;
        bool is_committed;
    } extents[EXTENTS];
    size_t count;
};

static size_t page(void)
{
    return (size_t)sysconf(_SC_PAGESIZE);
}

static unsigned arena_of_hooks; /* one of its own that they allocate from; 0: they have none */

static void allocate_of(unsigned arena, size_t size)
{
    void *volatile block = mallocx(size, MALLOCX_ARENA(arena));
    void *volatile large = mallocx(100000, MALLOCX_ARENA(arena) | MALLOCX_ZERO);
    CHECK(block != NULL && large != NULL);
    dallocx(block, 0);
    dallocx(large, 0);
}

static bool declines(struct watch *watch, enum hook hook, unsigned arena)
{
    size_t size = 100 + 1000 * (size_t)hook;
    void *volatile block = malloc(size);
    void *volatile large = malloc(100000);
    CHECK(block != NULL && large != NULL);
    free(block);
    free(large);
    allocate_of(arena_of_hooks, size);
    allocate_of(0, size);
    CHECK(watch->arena == 0 || watch->arena == arena);
    watch->arena = arena;
    watch->calls[hook]++;
    int every = watch->says_no[hook];
    return every != 0 && watch->calls[hook] % (unsigned)every == 0;
}

static size_t find(struct watch *watch, void *start, size_t size)
{
    for (size_t i = 0; i < watch->count; i++) {
        if (watch->extents[i].start == start) {
            CHECK_MSG(watch->extents[i].size == size, "%p: %zu, %zu", start, watch->extents[i].size,
                      size);
            return i;
        }
    }
    FAIL("%p of %zu bytes is no extent", start, size);
}

static void add(struct watch *watch, void *start, size_t size, bool is_committed)
{
    CHECK(watch->count < EXTENTS);
    watch->extents[watch->count].start = start;
    watch->extents[watch->count].size = size;
    watch->extents[watch->count++].is_committed = is_committed;
}

static void drop(struct watch *watch, size_t at)
{
    watch->extents[at] = watch->extents[--watch->count];
}

static void *watch_alloc(extent_hooks_t *hooks, void *new_address, size_t size, size_t alignment,
                         bool *zero, bool *commit, unsigned arena)
{
    struct watch *watch = (struct watch *)hooks;
    CHECK(size > 0 && size % page() == 0 && alignment >= page());
    if (declines(watch, ALLOC, arena) || new_address != NULL) {
        return NULL;
    }
    bool is_committed = !watch->comes_without_memory;
    char *start = mmap(NULL, size + alignment, is_committed ? PROT_READ | PROT_WRITE : PROT_NONE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (start == MAP_FAILED) {
        return NULL;
    }
    char *end = start + size + alignment;
    char *aligned = start + (alignment - (uintptr_t)start % alignment) % alignment;
    munmap(aligned + size, (size_t)(end - aligned) - size);
    if (aligned != start) {
        munmap(start, (size_t)(aligned - start));
    }
    *zero = true;
    *commit = is_committed;
    add(watch, aligned, size, is_committed);
    return aligned;
}

static bool watch_dalloc(extent_hooks_t *hooks, void *address, size_t size, bool committed,
                         unsigned arena)
{
    struct watch *watch = (struct watch *)hooks;
    size_t at = find(watch, address, size);
    CHECK_EQ(watch->extents[at].is_committed, committed);
    if (declines(watch, DALLOC, arena)) {
        return true;
    }
    drop(watch, at);
    CHECK_EQ(munmap(address, size), 0);
    return false;
}

static void watch_destroy(extent_hooks_t *hooks, void *address, size_t size, bool committed,
                          unsigned arena)
{
    struct watch *watch = (struct watch *)hooks;
    size_t at = find(watch, address, size);
    CHECK_EQ(watch->extents[at].is_committed, committed);
    declines(watch, DESTROY, arena);
    drop(watch, at);
    CHECK_EQ(munmap(address, size), 0);
}

static bool watch_commit(extent_hooks_t *hooks, void *address, size_t size, size_t offset,
                         size_t length, unsigned arena)
{
    struct watch *watch = (struct watch *)hooks;
    size_t at = find(watch, address, size);
    CHECK(offset + length <= size && !watch->extents[at].is_committed);
    if (declines(watch, COMMIT, arena)) {
        return true;
    }
    watch->extents[at].is_committed = true;
    return mprotect((char *)address + offset, length, PROT_READ | PROT_WRITE) != 0;
}

static bool watch_decommit(extent_hooks_t *hooks, void *address, size_t size, size_t offset,
                           size_t length, unsigned arena)
{
    struct watch *watch = (struct watch *)hooks;
    size_t at = find(watch, address, size);
    CHECK(offset == 0 && length == size && watch->extents[at].is_committed);
    if (declines(watch, DECOMMIT, arena)) {
        return true;
    }
    watch->extents[at].is_committed = false;
    CHECK_EQ(madvise(address, size, MADV_DONTNEED), 0);
    return mprotect(address, size, PROT_NONE) != 0; /* who touches it now dies */
}

static bool watch_lazy(extent_hooks_t *hooks, void *address, size_t size, size_t offset,
                       size_t length, unsigned arena)
{
    struct watch *watch = (struct watch *)hooks;
    CHECK(watch->extents[find(watch, address, size)].is_committed);
    memset((char *)address + offset, 0x77, 1); /* content is undefined from now on */
    return declines(watch, LAZY, arena) || length != size;
}

static bool watch_forced(extent_hooks_t *hooks, void *address, size_t size, size_t offset,
                         size_t length, unsigned arena)
{
    struct watch *watch = (struct watch *)hooks;
    CHECK(watch->extents[find(watch, address, size)].is_committed);
    return declines(watch, FORCED, arena) ||
           madvise((char *)address + offset, length, MADV_DONTNEED) != 0;
}

static bool watch_split(extent_hooks_t *hooks, void *address, size_t size, size_t size_a,
                        size_t size_b, bool committed, unsigned arena)
{
    struct watch *watch = (struct watch *)hooks;
    size_t at = find(watch, address, size);
    CHECK(size_a + size_b == size && size_a > 0 && size_b > 0);
    CHECK_EQ(watch->extents[at].is_committed, committed);
    if (declines(watch, SPLIT, arena)) {
        return true;
    }
    watch->extents[at].size = size_a;
    add(watch, (char *)address + size_a, size_b, committed);
    return false;
}

static bool watch_merge(extent_hooks_t *hooks, void *address_a, size_t size_a, void *address_b,
                        size_t size_b, bool committed, unsigned arena)
{
    struct watch *watch = (struct watch *)hooks;
    size_t low = find(watch, address_a, size_a), high = find(watch, address_b, size_b);
    CHECK((char *)address_a + size_a == address_b);
    CHECK_EQ(watch->extents[low].is_committed, committed);
    CHECK_EQ(watch->extents[high].is_committed, committed);
    if (declines(watch, MERGE, arena)) {
        return true;
    }
    watch->extents[low].size += size_b;
    drop(watch, high);
    return false;
}

static unsigned create(extent_hooks_t *hooks)
{
    unsigned arena;
    size_t size = sizeof arena;
    CHECK_EQ(mallctl("arenas.create", &arena, &size, hooks != NULL ? &hooks : NULL,
                     hooks != NULL ? sizeof hooks : 0),
             0);
    return arena;
}

static void watch_init(struct watch *watch)
{
    watch->hooks =
        (extent_hooks_t){watch_alloc, watch_dalloc, watch_destroy, watch_commit, watch_decommit,
                         watch_lazy,  watch_forced, watch_split,   watch_merge};
    arena_of_hooks = arena_of_hooks == 0 ? create(NULL) : arena_of_hooks;
}

#endif
