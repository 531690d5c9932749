/* SPDX-License-Identifier: MIT
 *
 * Explicit caches, and what a thread says of its own.
 */
#include <jemalloc/jemalloc.h>

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

#include "../test.h"

static unsigned create(void)
{
    unsigned cache;
    size_t size = sizeof cache;
    CHECK_EQ(mallctl("tcache.create", &cache, &size, NULL, 0), 0);
    return cache;
}

static int act(const char *name, unsigned cache)
{
    return mallctl(name, NULL, NULL, &cache, sizeof cache);
}

TEST(caches_are_made_and_ended)
{
    unsigned a = create(), b = create();
    CHECK_NE(a, b);
    CHECK_EQ(act("tcache.flush", a), 0);
    CHECK_EQ(act("tcache.destroy", a), 0);
    CHECK_EQ(act("tcache.destroy", a), EFAULT);
    CHECK_EQ(act("tcache.flush", a), EFAULT);
    CHECK_EQ(act("tcache.flush", 5000), EFAULT);
    CHECK_EQ(create(), a);
    unsigned old;
    size_t size = sizeof old;
    CHECK_EQ(mallctl("tcache.create", NULL, NULL, NULL, 0), EINVAL);
    CHECK_EQ(mallctl("tcache.create", &old, &size, &old, sizeof old), EPERM);
    CHECK_EQ(mallctl("tcache.flush", &old, &size, NULL, 0), EPERM);
    CHECK_EQ(mallctl("tcache.flush", NULL, NULL, NULL, 0), EINVAL);
    CHECK_EQ(mallctl("tcache.flush", NULL, NULL, &(size_t){0}, 8), EINVAL);
}

/* In secure and debug what is freed is free: no cache keeps it for who asks next. */
TEST(what_is_freed_into_a_cache_comes_out_of_it)
{
    unsigned a = create(), b = create();
    for (size_t size = 1; size <= 32768; size = size * 3 / 2 + 1) {
        char *block = mallocx(size, MALLOCX_TCACHE(a));
        memset(block, 1, size);
        dallocx(block, MALLOCX_TCACHE(a));
        void *other[100];
        for (int i = 0; i < 100; i++) {
            other[i] = i % 2 ? malloc(size) : mallocx(size, MALLOCX_TCACHE(b));
            CHECK(TEST_MODE != 0 || other[i] != block);
        }
        char *again = mallocx(size, MALLOCX_TCACHE(a) | MALLOCX_ZERO);
        CHECK_MSG(TEST_MODE != 0 || again == block, "%zu", size);
        CHECK(again[0] == 0 && again[size - 1] == 0);
        sdallocx(again, size, MALLOCX_TCACHE(a));
        for (int i = 0; i < 100; i++) {
            dallocx(other[i], i % 3 ? MALLOCX_TCACHE(b) : 0);
        }
    }
    CHECK(mw_heap_is_valid());
    CHECK_EQ(act("tcache.destroy", a), 0);
    CHECK_EQ(act("tcache.destroy", b), 0);
    CHECK(mw_heap_is_valid());
}

TEST(a_cache_is_bounded_and_a_flush_empties_it)
{
    enum { COUNT = 20000 };
    static void *blocks[COUNT];
    unsigned a = create();
    for (int i = 0; i < COUNT; i++) {
        blocks[i] = mallocx(2000, 0);
    }
    for (int i = 0; i < COUNT; i++) {
        dallocx(blocks[i], MALLOCX_TCACHE(a));
    }
    uint64_t epoch = 1;
    size_t held, size = sizeof held;
    CHECK_EQ(mallctl("thread.tcache.flush", NULL, NULL, NULL, 0), 0);
    CHECK_EQ(mallctl("epoch", NULL, NULL, &epoch, sizeof epoch), 0);
    CHECK_EQ(mallctl("stats.allocated", &held, &size, NULL, 0), 0);
    CHECK_LT(held, 2 << 20);
    CHECK_EQ(act("tcache.flush", a), 0);
    void *block = mallocx(2000, MALLOCX_TCACHE(a));
    dallocx(block, MALLOCX_TCACHE_NONE);
    CHECK(mw_heap_is_valid());
}

TEST(blocks_of_an_arena_pass_a_cache_by)
{
    unsigned cache = create(), arena;
    size_t size = sizeof arena;
    CHECK_EQ(mallctl("arenas.create", &arena, &size, NULL, 0), 0);
    void *block = mallocx(100, MALLOCX_ARENA(arena) | MALLOCX_TCACHE(cache));
    dallocx(block, MALLOCX_TCACHE(cache));
    char name[64];
    snprintf(name, sizeof name, "arena.%u.destroy", arena);
    CHECK_EQ(mallctl(name, NULL, NULL, NULL, 0), 0);
    void *own = mallocx(100, MALLOCX_TCACHE(cache));
    unsigned found;
    CHECK_EQ(mallctl("arenas.lookup", &found, &size, &own, sizeof own), 0);
    CHECK_NE(found, arena);
}

static uint64_t counter(const char *name)
{
    uint64_t *value;
    size_t size = sizeof value;
    CHECK_EQ(mallctl(name, &value, &size, NULL, 0), 0);
    return *value;
}

TEST(counters_of_a_thread_count_its_caches)
{
    unsigned a = create();
    for (int round = 0; round < 3; round++) {
        uint64_t allocated = counter("thread.allocatedp"), freed = counter("thread.deallocatedp");
        void *block = mallocx(100, MALLOCX_TCACHE(a));
        uint64_t counted = counter("thread.allocatedp") - allocated;
        CHECK_GE(counted, sallocx(block, 0));
        CHECK_LE(counted, sallocx(block, 0) + (TEST_MODE == 0 ? 0 : 64)); /* canary or red zones */
        dallocx(block, MALLOCX_TCACHE(a));
        CHECK_EQ(counter("thread.deallocatedp") - freed, counter("thread.allocatedp") - allocated);
        if (round == 1) {
            CHECK_EQ(act("tcache.flush", a), 0);
            CHECK_EQ(counter("thread.deallocatedp") - freed,
                     counter("thread.allocatedp") - allocated);
        }
    }
}

TEST(counters_of_a_thread_count_no_block_that_keeps_its_size)
{
    counter("thread.allocatedp");
    void *block = mallocx(300000, 0);
    size_t usable = sallocx(block, 0);
    uint64_t allocated = counter("thread.allocatedp"), freed = counter("thread.deallocatedp");
    for (int i = 0; i < 3; i++) {
        CHECK_EQ(xallocx(block, usable, 0, 0), usable);
    }
    CHECK_EQ(counter("thread.allocatedp"), allocated);
    CHECK_EQ(counter("thread.deallocatedp"), freed);
    dallocx(block, 0);
}

TEST(uncached_frees_leave_nothing_in_the_heap)
{
    static const size_t sizes[] = {100, 2000, 30000, 50000, 300000, 3 << 20, 20 << 20};
    for (int round = 0; round < 60; round++) {
        for (int i = 0; i < 7; i++) {
            char *block = mallocx(sizes[i], MALLOCX_TCACHE_NONE);
            block[0] = block[sizes[i] - 1] = 1;
            block = rallocx(block, sizes[i] * 3, MALLOCX_TCACHE_NONE);
            CHECK(block[0] == 1 && block[sizes[i] - 1] == 1);
            if (round % 2) {
                dallocx(block, MALLOCX_TCACHE_NONE);
            } else {
                sdallocx(block, sizes[i] * 3, MALLOCX_TCACHE_NONE);
            }
        }
    }
    dallocx(NULL, MALLOCX_TCACHE_NONE);
    CHECK(mw_heap_is_valid());
}

TEST(a_thread_can_turn_its_cache_off)
{
    bool off = false, on = true, old;
    size_t size = sizeof old;
    void *before = malloc(5000);
    CHECK_EQ(mallctl("thread.tcache.enabled", &old, &size, &off, sizeof off), 0);
    CHECK_EQ(old, true);
    CHECK_EQ(mallctl("thread.tcache.enabled", &old, &size, NULL, 0), 0);
    CHECK_EQ(old, false);
    for (size_t bytes = 1; bytes < 30 << 20; bytes = bytes * 2 + 1) {
        char *block = malloc(bytes);
        block[0] = block[bytes - 1] = 1;
        block = realloc(block, bytes * 2);
        CHECK_EQ(block[bytes - 1], 1);
        free(block);
        free(calloc(1, bytes));
    }
    free(before);
    CHECK_EQ(mallctl("thread.tcache.enabled", NULL, NULL, &on, sizeof on), 0);
    free(malloc(100));
    CHECK(mw_heap_is_valid());
}

TEST(there_are_as_many_caches_as_a_flag_can_name)
{
    enum { MOST = 4094 };
    unsigned first = create(), last = first, size = 1;
    while (mallctl("tcache.create", &last, &(size_t){sizeof last}, NULL, 0) == 0) {
        size++;
    }
    CHECK_GE(size, MOST / 2);
    CHECK_LE(size, MOST);
    CHECK_EQ(mallctl("tcache.create", &last, &(size_t){sizeof last}, NULL, 0), EFAULT);
    for (unsigned cache = 0; cache < MOST; cache++) {
        (void)act("tcache.destroy", cache);
    }
    CHECK_EQ(create(), 0);
    CHECK_EQ(act("tcache.destroy", 0), 0);
}

TEST(a_thread_can_bound_what_is_cached)
{
    size_t most, less = 1000, size = sizeof most;
    CHECK_EQ(mallctl("thread.tcache.max", &most, &size, &less, sizeof less), 0);
    CHECK_EQ(most, 32768);
    CHECK_EQ(mallctl("thread.tcache.max", &less, &size, &most, sizeof most), 0);
    CHECK_EQ(less, 1000);
    CHECK_EQ(mallctl("thread.tcache.max", NULL, NULL, &less, sizeof less), 0);
    for (size_t bytes = 1; bytes < 3 << 20; bytes = bytes * 2 + 1) {
        char *block = malloc(bytes);
        block[bytes - 1] = 1;
        free(block);
    }
    CHECK(mw_heap_is_valid());
}
