/* SPDX-License-Identifier: MIT
 *
 * Explicit arenas: their blocks, their end, their hooks, and the threads that are bound to them.
 */
#include <jemalloc/jemalloc.h>

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "../test.h"
#include "memory.h"
#include "read.h"

static const char *name_of(unsigned arena, const char *what)
{
    static _Thread_local char name[64];
    snprintf(name, sizeof name, "arena.%u.%s", arena, what);
    return name;
}

static unsigned create(extent_hooks_t *hooks)
{
    unsigned arena;
    size_t size = sizeof arena;
    CHECK_EQ(mallctl("arenas.create", &arena, &size, hooks != NULL ? &hooks : NULL,
                     hooks != NULL ? sizeof hooks : 0),
             0);
    CHECK_EQ(size, sizeof arena);
    return arena;
}

static int act(unsigned arena, const char *what)
{
    return mallctl(name_of(arena, what), NULL, NULL, NULL, 0);
}

static unsigned arena_of(void *block)
{
    unsigned arena = 0;
    size_t size = sizeof arena;
    CHECK_EQ(mallctl("arenas.lookup", &arena, &size, &block, sizeof block), 0);
    return arena;
}

static size_t mapped(void)
{
    char text[128];
    FILE *file = fopen("/proc/self/statm", "r");
    CHECK(file != NULL && fgets(text, sizeof text, file) != NULL);
    fclose(file);
    return (size_t)atol(text) * (size_t)sysconf(_SC_PAGESIZE);
}

static const size_t sizes[] = {1,    16,    100,   1000,   1024,    2000,
                               5000, 30000, 40000, 300000, 3 << 20, 20 << 20};
enum { SIZES = sizeof sizes / sizeof *sizes };

TEST(numbers_of_arenas)
{
    unsigned before = READ(unsigned, "arenas.narenas");
    unsigned a = create(NULL), b = create(NULL);
    CHECK_EQ(a, before);
    CHECK_EQ(b, before + 1);
    CHECK_EQ(READ(unsigned, "arenas.narenas"), before + 2);
    CHECK_EQ(READ(bool, name_of(a, "initialized")), true);
    CHECK_EQ(READ(bool, "arena.4097.initialized"), false);
    CHECK_EQ(act(a, "destroy"), 0);
    CHECK_EQ(READ(bool, name_of(a, "initialized")), false);
    CHECK_EQ(READ(bool, "arena.4097.initialized"), true);
    CHECK_EQ(READ(unsigned, "arenas.narenas"), before + 2);
    CHECK_EQ(create(NULL), a); /* used again */
    CHECK_EQ(create(NULL), before + 2);
    CHECK_EQ(act(before + 2, "purge"), 0);
    CHECK_EQ(act(before + 3, "purge"), 0); /* the number of arenas: all */
    CHECK_EQ(act(4096, "purge"), 0);
    CHECK_EQ(act(4097, "decay"), 0);
}

TEST(errors_of_arenas)
{
    unsigned a = create(NULL), old = 0;
    size_t size = sizeof old, zero = 0;
    CHECK_EQ(mallctl("arenas.create", NULL, NULL, NULL, 0), EINVAL);
    size = 8;
    CHECK_EQ(mallctl("arenas.create", &old, &size, NULL, 0), EINVAL);
    CHECK_EQ(size, 0);
    size = sizeof old;
    CHECK_EQ(mallctl("arenas.create", &old, &size, &old, sizeof old), EINVAL);
    CHECK_EQ(act(0, "reset"), EFAULT);
    CHECK_EQ(act(0, "destroy"), EFAULT);
    CHECK_EQ(act(4096, "reset"), EFAULT);
    CHECK_EQ(act(4096, "destroy"), EFAULT);
    CHECK_EQ(act(3000, "reset"), ENOENT);
    CHECK_EQ(act(3000, "destroy"), ENOENT);
    size = sizeof old;
    CHECK_EQ(mallctl(name_of(a, "reset"), &old, &size, NULL, 0), EPERM);
    CHECK_EQ(act(a, "destroy"), 0);
    CHECK_EQ(act(a, "destroy"), EFAULT);
    CHECK_EQ(act(a, "reset"), EFAULT);
    CHECK_EQ(mallctl("thread.arena", NULL, NULL, &a, sizeof a), EFAULT);
    CHECK_EQ(mallctl(name_of(a, "dirty_decay_ms"), NULL, NULL, &(ssize_t){1}, sizeof(ssize_t)),
             EFAULT);
    CHECK_EQ(mallctl(name_of(create(NULL), "dss"), NULL, NULL, &(const char *){"primary"}, 8),
             EFAULT);
    CHECK_EQ(mallctl(name_of(0, "extent_hooks"), NULL, NULL, &(void *){&zero}, 8), EPERM);
    CHECK(READ(void *, name_of(1, "extent_hooks")) == READ(void *, name_of(0, "extent_hooks")));
    errno = 0;
    CHECK(mallocx(100, MALLOCX_ARENA(3000)) == NULL);
    CHECK_EQ(errno, ENOMEM);
}

static void check_blocks(unsigned arena, int more)
{
    for (int i = 0; i < SIZES; i++) {
        for (int lg = 0; lg < 24; lg += 5) {
            int flags = MALLOCX_ARENA(arena) | MALLOCX_LG_ALIGN(lg) | more;
            unsigned char *block = mallocx(sizes[i], flags);
            CHECK(block != NULL && ((uintptr_t)block & ((1u << lg) - 1)) == 0);
            CHECK_EQ(arena_of(block), arena);
            CHECK_GE(sallocx(block, 0), sizes[i]);
            memset(block, i + 1, sizes[i]);
            unsigned char *zero = mallocx(sizes[i], flags | MALLOCX_ZERO);
            for (size_t at = 0; at < sallocx(zero, 0); at += 1 + at / 64) {
                CHECK_EQ(zero[at], 0);
            }
            CHECK_EQ(block[sizes[i] - 1], i + 1);
            memset(zero, 0xff, sizes[i]);
            dallocx(zero, flags);
            sdallocx(block, sizes[i], flags);
        }
    }
    CHECK(mw_heap_is_valid());
}

TEST(blocks_are_of_the_arena_that_is_named)
{
    unsigned a = create(NULL), b = create(NULL), shared = 0;
    for (int round = 0; round < 2; round++) {
        check_blocks(a, 0);
        check_blocks(b, MALLOCX_TCACHE_NONE);
        check_blocks(shared, 0);
    }
    CHECK_EQ(act(a, "destroy"), 0);
    CHECK_EQ(act(b, "destroy"), 0);
    CHECK(mw_heap_is_valid());
}

TEST(rallocx_moves_to_the_arena_that_is_named)
{
    unsigned a = create(NULL), b = create(NULL);
    for (int i = 0; i + 1 < SIZES; i++) {
        unsigned char *block = mallocx(sizes[i], MALLOCX_ARENA(a));
        memset(block, 77, sizes[i]);
        block = rallocx(block, sizes[i + 1] * 2, MALLOCX_ARENA(b) | MALLOCX_ZERO);
        CHECK_MSG(arena_of(block) == b || arena_of(block) == a, "%zu", sizes[i]);
        CHECK_EQ(block[0], 77);
        CHECK_EQ(block[sizes[i] - 1], 77);
        CHECK_EQ(block[sizes[i + 1] * 2 - 1], 0);
        memset(block, 78, sizes[i + 1] * 2);
        block = rallocx(block, sizes[i], MALLOCX_ARENA(a));
        CHECK_EQ(block[sizes[i] - 1], 78);
        block = realloc(block, sizes[i] * 3); /* to the thread's own */
        CHECK_EQ(block[sizes[i] - 1], 78);
        CHECK_GE(xallocx(block, sizes[i] * 3, 0, 0), sizes[i] * 3);
        free(block);
    }
    void *small = malloc(10);
    small = rallocx(small, 5000, MALLOCX_ARENA(a));
    CHECK_EQ(arena_of(small), a);
    CHECK(mw_heap_is_valid());
    CHECK_EQ(act(a, "reset"), 0);
    CHECK(mw_heap_is_valid());
}

TEST(xallocx_in_an_explicit_arena)
{
    unsigned a = create(NULL);
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    unsigned char *block = mallocx(100 * page, MALLOCX_ARENA(a));
    memset(block, 5, 100 * page);
    CHECK_GE(xallocx(block, 200 * page, 0, MALLOCX_ZERO), 200 * page);
    CHECK_EQ(block[200 * page - 1], 0);
    CHECK_EQ(block[100 * page - 1], 5);
    size_t less = xallocx(block, 20 * page, 0, 0);
    CHECK(less >= 20 * page && less < 30 * page);
    CHECK_EQ(arena_of(block), a);
    CHECK_EQ(act(a, "destroy"), 0);
}

/* What a descriptor said of another block before does not matter when this one reaches there. */
TEST(xallocx_in_an_arena_reaches_where_others_were)
{
    enum { BLOCKS = 64, TURNS = 40000 };
    void *blocks[BLOCKS] = {NULL};
    uint64_t random = 1;
    for (int turn = 0; turn < TURNS; turn++) {
        unsigned at = test_random(&random) % BLOCKS;
        bool is_plain = test_random(&random) % 2 != 0;
        size_t size = 20000 + test_random(&random) % 60000;
        free(blocks[at]);
        blocks[at] = is_plain ? malloc(size) : mallocx(size, MALLOCX_ARENA(0));
        CHECK(blocks[at] != NULL);
        if (!is_plain) {
            xallocx(blocks[at], size + 4096, test_random(&random) % 100000, 0);
        }
    }
    for (int i = 0; i < BLOCKS; i++) {
        free(blocks[i]);
    }
}

TEST(reset_takes_all_blocks_back)
{
    unsigned a = create(NULL);
    size_t least = SIZE_MAX, most = 0;
    for (int round = 0; round < 20; round++) {
        for (int i = 0; i < SIZES; i++) {
            for (int count = 0; count < 30; count++) {
                char *block = mallocx(sizes[i], MALLOCX_ARENA(a));
                block[0] = block[sizes[i] - 1] = 1;
            }
        }
        CHECK_EQ(act(a, "reset"), 0);
        CHECK(mw_heap_is_valid());
        size_t now = mapped();
        least = now < least ? now : least;
        most = now > most ? now : most;
    }
    CHECK_MSG(most <= least + (64 << 20), "%zu .. %zu", least, most);
    size_t before = resident();
    CHECK_EQ(act(a, "purge"), 0);
    CHECK_LE(resident(), before);
    CHECK_EQ(act(a, "destroy"), 0);
}

KERNEL_TEST(destroy_gives_all_back)
{
    for (int round = 0; round < 1200; round++) {
        static size_t resident_before, mapped_before;
        unsigned a = create(NULL), b = create(NULL);
        for (int i = 0; i < 300; i++) {
            char *block = mallocx(sizes[i % (SIZES - 1)], MALLOCX_ARENA(i % 2 ? a : b));
            memset(block, 1, sizes[i % (SIZES - 1)] < 10000 ? sizes[i % (SIZES - 1)] : 10000);
        }
        CHECK_EQ(act(a, "destroy"), 0);
        CHECK_EQ(act(b, "destroy"), 0);
        if (round == 20) {
            resident_before = resident();
            mapped_before = mapped();
        } else if (round > 20) {
            /* Or one huge page of the allocator's tables, where the system makes them for all. */
            CHECK_MSG(resident() <= resident_before + (3 << 20), "round %d: %zu -> %zu", round,
                      resident_before, resident());
            CHECK_MSG(mapped() <= mapped_before + (1 << 20), "round %d: %zu -> %zu", round,
                      mapped_before, mapped());
        }
    }
    CHECK(mw_heap_is_valid());
}

TEST(thousands_of_arenas_at_a_time)
{
    unsigned first = create(NULL), last = first;
    for (;;) {
        unsigned next;
        size_t size = sizeof next;
        int error = mallctl("arenas.create", &next, &size, NULL, 0);
        if (error != 0) {
            CHECK_EQ(error, EAGAIN);
            break;
        }
        CHECK_EQ(next, last + 1);
        last = next;
    }
    CHECK_EQ(last, 4094);
    CHECK_EQ(READ(unsigned, "arenas.narenas"), 4095);
    for (unsigned i = first; i <= last; i += 97) {
        CHECK_EQ(arena_of(mallocx(100, MALLOCX_ARENA(i))), i);
    }
    CHECK_EQ(arena_of(mallocx(100, MALLOCX_ARENA(last))), last);
    CHECK(mw_heap_is_valid());
    for (unsigned i = first; i <= last; i++) {
        CHECK_EQ(act(i, "destroy"), 0);
    }
    CHECK_EQ(create(NULL), first);
}

/* Blocks that other threads free leave nothing behind in their heaps. */
static void *blocks_of_arena[4000];

static void *free_them(void *first)
{
    for (void **at = first; at < blocks_of_arena + 4000; at += 4) {
        void *own = malloc(malloc_usable_size(*at));
        free(*at);
        free(own);
    }
    return NULL;
}

TEST(other_threads_free_what_is_reset)
{
    unsigned a = create(NULL);
    for (int round = 0; round < 20; round++) {
        pthread_t threads[3];
        for (int i = 0; i < 4000; i++) {
            blocks_of_arena[i] = mallocx(sizes[i % 10], MALLOCX_ARENA(a));
        }
        for (int i = 0; i < 3; i++) {
            pthread_create(&threads[i], NULL, free_them, &blocks_of_arena[i]);
        }
        for (int i = 0; i < 3; i++) {
            pthread_join(threads[i], NULL);
        }
        CHECK_EQ(act(a, round % 2 ? "reset" : "destroy"), 0);
        if (round % 2 == 0) {
            CHECK_EQ(create(NULL), a);
        }
        for (int i = 0; i < 10; i++) {
            void *own[100]; /* would be one of them if a heap had kept it */
            for (int j = 0; j < 100; j++) {
                own[j] = malloc(sizes[i]);
                CHECK_NE(arena_of(own[j]), a);
            }
            for (int j = 0; j < 100; j++) {
                free(own[j]);
            }
        }
    }
    CHECK(mw_heap_is_valid());
}

TEST(names_of_arenas)
{
    unsigned a = create(NULL);
    char buffer[32], expected[32];
    char *old = buffer;
    const char *new = "request";
    size_t size = sizeof old;
    snprintf(expected, sizeof expected, "manual_%u", a);
    CHECK_EQ(mallctl(name_of(a, "name"), &old, &size, &new, sizeof new), 0);
    CHECK_MSG(!strcmp(buffer, expected), "%s", buffer);
    CHECK_EQ(mallctl(name_of(a, "name"), &old, &size, NULL, 0), 0);
    CHECK_MSG(!strcmp(buffer, "request"), "%s", buffer);
    new = "a name that is longer than an arena's may be";
    CHECK_EQ(mallctl(name_of(a, "name"), NULL, NULL, &new, sizeof new), 0);
    CHECK_EQ(mallctl(name_of(a, "name"), &old, &size, NULL, 0), 0);
    CHECK_MSG(strlen(buffer) == 31 && !strncmp(buffer, new, 31), "%s", buffer);
    CHECK_EQ(mallctl(name_of(0, "name"), &old, &size, NULL, 0), 0);
    CHECK_MSG(!strcmp(buffer, "auto_0"), "%s", buffer);
    size = 4;
    CHECK_EQ(mallctl(name_of(a, "name"), &old, &size, NULL, 0), EINVAL);
}

TEST(decay_of_an_explicit_arena)
{
    unsigned a = create(NULL);
    ssize_t never = -1, now = 0;
    CHECK_EQ(mallctl(name_of(a, "dirty_decay_ms"), NULL, NULL, &never, sizeof never), 0);
    CHECK_EQ(READ(ssize_t, name_of(a, "dirty_decay_ms")), -1);
    CHECK_EQ(READ(ssize_t, name_of(a, "muzzy_decay_ms")), 0);
    char *block = mallocx(64 << 20, MALLOCX_ARENA(a));
    memset(block, 1, 64 << 20);
    dallocx(block, 0);
    size_t before = resident();
    CHECK_EQ(act(a, "decay"), 0);
    CHECK_GE(resident(), before - (1 << 20));
    CHECK_EQ(mallctl(name_of(a, "dirty_decay_ms"), NULL, NULL, &now, sizeof now), 0);
    CHECK_LE(resident(), before - (60 << 20));
    block = mallocx(64 << 20, MALLOCX_ARENA(a));
    memset(block, 1, 64 << 20);
    dallocx(block, 0); /* at once */
    CHECK_LE(resident(), before - (60 << 20));
}

TEST(limit_on_growth)
{
    unsigned a = create(NULL);
    size_t most = 4 << 20, none = 1;
    CHECK_EQ(READ(size_t, name_of(a, "retain_grow_limit")), 64 << 20);
    CHECK_EQ(mallctl(name_of(a, "retain_grow_limit"), NULL, NULL, &none, sizeof none), EFAULT);
    CHECK_EQ(mallctl(name_of(a, "retain_grow_limit"), NULL, NULL, &most, sizeof most), 0);
    CHECK_EQ(READ(size_t, name_of(a, "retain_grow_limit")), most);
    size_t before = mapped();
    for (int i = 0; i < 30; i++) {
        mallocx(1 << 20, MALLOCX_ARENA(a));
    }
    CHECK_LE(mapped(), before + (40 << 20)); /* regions of up to 32 MiB would be more */
}

TEST(oversize_threshold_is_kept)
{
    unsigned a = create(NULL);
    size_t size = 1 << 20;
    CHECK_EQ(READ(size_t, name_of(a, "oversize_threshold")), 0);
    CHECK_EQ(mallctl(name_of(a, "oversize_threshold"), NULL, NULL, &size, sizeof size), 0);
    CHECK_EQ(READ(size_t, name_of(a, "oversize_threshold")), size);
    CHECK_EQ(READ(size_t, "arena.0.oversize_threshold"), 0);
    CHECK_EQ(mallctl(name_of(a, "oversize_threshold"), NULL, NULL, &size, 4), EINVAL);
    CHECK_EQ(mallctl("arena.4095.oversize_threshold", NULL, NULL, &size, sizeof size), ENOENT);
    void *block = mallocx(4 << 20, MALLOCX_ARENA(a)), *in_arena = mallocx(64, MALLOCX_ARENA(a));
    CHECK(block != NULL && in_arena != NULL); /* of that arena, whatever the threshold */
    unsigned of_block = a + 1;
    size_t length = sizeof of_block;
    CHECK_EQ(mallctl("arenas.lookup", &of_block, &length, &block, sizeof block), 0);
    CHECK_EQ(of_block, a);
}

/* --- Bound threads ---------------------------------------------------------------------------- */

TEST(a_bound_thread_allocates_from_its_arena)
{
    unsigned a = create(NULL), old;
    size_t size = sizeof old;
    void *before = malloc(100);
    CHECK_EQ(mallctl("thread.arena", &old, &size, &a, sizeof a), 0);
    CHECK_EQ(READ(unsigned, "thread.arena"), a);
    void *blocks[SIZES][5];
    for (int i = 0; i < SIZES; i++) {
        blocks[i][0] = malloc(sizes[i]);
        blocks[i][1] = calloc(1, sizes[i]);
        blocks[i][2] = aligned_alloc(64, sizes[i]);
        blocks[i][3] = realloc(malloc(1), sizes[i]);
        blocks[i][4] = mallocx(sizes[i], MALLOCX_ZERO);
        for (int j = 0; j < 5; j++) {
            CHECK_MSG(arena_of(blocks[i][j]) == a, "%zu, %d", sizes[i], j);
            memset(blocks[i][j], 1, sizes[i]);
        }
    }
    CHECK_EQ(act(a, "destroy"), EFAULT);
    CHECK_EQ(act(a, "reset"), 0);
    CHECK_EQ(arena_of(malloc(10)), a);
    CHECK_EQ(mallctl("thread.arena", NULL, NULL, &old, sizeof old), 0);
    CHECK_EQ(READ(unsigned, "thread.arena"), old);
    CHECK_NE(arena_of(malloc(10)), a);
    CHECK_EQ(act(a, "destroy"), 0);
    free(before);
    CHECK(mw_heap_is_valid());
}

static unsigned bound_to;

static void *bind_and_end(void *unused)
{
    (void)unused;
    CHECK_EQ(mallctl("thread.arena", NULL, NULL, &bound_to, sizeof bound_to), 0);
    for (int i = 0; i < 1000; i++) {
        void *block = malloc(sizes[i % 10]);
        CHECK_EQ(arena_of(block), bound_to);
        if (i % 2) {
            free(block);
        }
    }
    CHECK_EQ(act(bound_to, "destroy"), EFAULT);
    return NULL;
}

TEST(threads_end_while_they_are_bound)
{
    bound_to = create(NULL);
    for (int round = 0; round < 10; round++) {
        pthread_t threads[4];
        for (int i = 0; i < 4; i++) {
            pthread_create(&threads[i], NULL, bind_and_end, NULL);
        }
        for (int i = 0; i < 4; i++) {
            pthread_join(threads[i], NULL);
        }
        CHECK_EQ(act(bound_to, round % 2 ? "destroy" : "reset"), 0);
        if (round % 2) {
            CHECK_EQ(create(NULL), bound_to);
        }
        CHECK_NE(READ(unsigned, "thread.arena"), bound_to);
    }
    CHECK(mw_heap_is_valid());
}

/* The bytes of the slot or the pages; in secure a canary and padding are among them. */
static void check_counted(uint64_t counted, size_t usable)
{
    size_t beside = usable / 4 + (usable > 32000 ? 8192 : 32);
    CHECK_GE(counted, usable);
    CHECK_LE(counted, usable + (TEST_MODE == 1 ? beside : 0));
}

TEST(exact_counts_of_a_bound_thread)
{
    unsigned a = create(NULL);
    uint64_t *allocated = READ(uint64_t *, "thread.allocatedp");
    uint64_t *freed = READ(uint64_t *, "thread.deallocatedp");
    CHECK_EQ(mallctl("thread.arena", NULL, NULL, &a, sizeof a), 0);
    for (int i = 0; i < SIZES; i++) {
        uint64_t allocated_before = *allocated, freed_before = *freed;
        void *block = malloc(sizes[i]);
        check_counted(*allocated - allocated_before, malloc_usable_size(block));
        block = realloc(block, sizes[i] * 2);
        check_counted(*allocated - *freed - (allocated_before - freed_before),
                      malloc_usable_size(block));
        free(block);
        CHECK_EQ(*allocated - allocated_before, *freed - freed_before);
    }
}

/* --- Fork ------------------------------------------------------------------------------------- */

static void *churn(void *stop)
{
    uint64_t random = (uintptr_t)&random | 1;
    void *blocks[50] = {NULL};
    CHECK_EQ(mallctl("thread.arena", NULL, NULL, &bound_to, sizeof bound_to), 0);
    while (!*(volatile int *)stop) {
        unsigned at = test_random(&random) % 50;
        free(blocks[at]);
        blocks[at] = malloc(sizes[test_random(&random) % 11]);
    }
    return NULL;
}

KERNEL_TEST(the_child_of_a_fork_has_arenas_whole)
{
    static int stop;
    pthread_t threads[2];
    bound_to = create(NULL);
    unsigned own = create(NULL);
    for (int i = 0; i < 2; i++) {
        pthread_create(&threads[i], NULL, churn, &stop);
    }
    for (int round = 0; round < 60; round++) {
        char *block = mallocx(1000, MALLOCX_ARENA(bound_to));
        strcpy(block, "kept");
        pid_t child = fork();
        if (child == 0) {
            CHECK(!strcmp(block, "kept"));
            CHECK(mallocx(5000, MALLOCX_ARENA(bound_to)) != NULL);
            free(malloc(10)); /* the threads that were bound are gone */
            dallocx(block, 0);
            CHECK(mw_heap_is_valid());
            CHECK_EQ(act(bound_to, "reset"), 0);
            CHECK_EQ(act(bound_to, "destroy"), 0);
            CHECK_EQ(act(own, "destroy"), 0);
            CHECK_EQ(create(NULL), bound_to < own ? bound_to : own);
            CHECK(mw_heap_is_valid());
            _exit(0);
        }
        int status;
        CHECK_EQ(waitpid(child, &status, 0), child);
        CHECK_EQ(status, 0);
        dallocx(block, 0);
    }
    stop = 1;
    for (int i = 0; i < 2; i++) {
        pthread_join(threads[i], NULL);
    }
    CHECK_EQ(act(bound_to, "destroy"), 0);
}

/* --- Out of memory ---------------------------------------------------------------------------- */

KERNEL_TEST(without_memory_there_is_no_arena_and_no_block)
{
    unsigned a = create(NULL);
    struct rlimit limit = {.rlim_cur = mapped() + (8 << 20), .rlim_max = RLIM_INFINITY};
    CHECK_EQ(setrlimit(RLIMIT_AS, &limit), 0);
    size_t count = 0;
    while (mallocx(100000, MALLOCX_ARENA(a)) != NULL) {
        CHECK(++count < 1000);
    }
    CHECK(count > 10);
    unsigned next;
    size_t size = sizeof next;
    int error, made = 0;
    while ((error = mallctl("arenas.create", &next, &size, NULL, 0)) == 0) {
        made++;
    }
    CHECK_EQ(error, EAGAIN);
    CHECK_LT(made, 4095);
    CHECK_EQ(act(a, "reset"), 0);
    CHECK(mallocx(100000, MALLOCX_ARENA(a)) != NULL);
    CHECK_EQ(act(a, "destroy"), 0);
    CHECK(mw_heap_is_valid());
}
