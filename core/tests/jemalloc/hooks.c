/* SPDX-License-Identifier: MIT
 *
 * Arenas with hooks of the program: those of watch.h, which check each call, and hooks around those of an arena.
 */
#include <jemalloc/jemalloc.h>

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/wait.h>

#include "../test.h"
#include "watch.h"

static int act(unsigned arena, const char *what)
{
    char name[64];
    snprintf(name, sizeof name, "arena.%u.%s", arena, what);
    return mallctl(name, NULL, NULL, NULL, 0);
}

static void set_decay(unsigned arena, const char *what, ssize_t ms)
{
    char name[64];
    snprintf(name, sizeof name, "arena.%u.%s", arena, what);
    CHECK_EQ(mallctl(name, NULL, NULL, &ms, sizeof ms), 0);
}

static const size_t sizes[] = {16,    100,   1000,   2000,    5000,    30000,
                               40000, 70000, 300000, 3 << 20, 12 << 20};
enum { SIZES = sizeof sizes / sizeof *sizes, BLOCKS = 200 };

static uint64_t random_state = 88172645463325252u;

/* One of them; the two largest, of which whole megabytes are filled, come seldom. */
static size_t random_size(void)
{
    size_t at = test_random(&random_state) % (4 * SIZES);
    return sizes[at < SIZES ? at : at % (SIZES - 2)];
}

/* Random blocks, each with a pattern that is looked at before it is freed. NULL is allowed where a
 * hook may decline. Returns how many there were. */
static unsigned exercise(unsigned arena, unsigned rounds)
{
    unsigned char *blocks[BLOCKS] = {NULL};
    size_t of[BLOCKS];
    unsigned good = 0;
    for (unsigned round = 0; round < rounds; round++) {
        size_t at = test_random(&random_state) % BLOCKS;
        if (blocks[at] != NULL) {
            CHECK_EQ(blocks[at][0], (unsigned char)at);
            CHECK_EQ(blocks[at][of[at] - 1], (unsigned char)at);
            dallocx(blocks[at], 0);
        }
        of[at] = random_size();
        int flags = MALLOCX_ARENA(arena) | (round % 3 == 0 ? MALLOCX_ZERO : 0) |
                    (round % 7 == 0 ? MALLOCX_ALIGN(16384) : 0);
        blocks[at] = mallocx(of[at], flags);
        if (blocks[at] == NULL) {
            continue;
        }
        good++;
        if (flags & MALLOCX_ZERO) {
            CHECK(blocks[at][0] == 0 && blocks[at][of[at] / 2] == 0 && blocks[at][of[at] - 1] == 0);
        }
        blocks[at][0] = blocks[at][of[at] / 2] = blocks[at][of[at] - 1] = (unsigned char)at;
        if (round % 11 == 0 && of[at] > 40000) {
            if (xallocx(blocks[at], of[at] * 2, 0, 0) >= of[at] * 2) {
                blocks[at][of[at] * 2 - 1] = 0;
            }
            blocks[at][of[at] - 1] = (unsigned char)at;
        } else if (round % 13 == 0) {
            unsigned char *moved = rallocx(blocks[at], of[at] * 2, MALLOCX_ARENA(arena));
            blocks[at] = moved != NULL ? moved : blocks[at];
        }
        if (round % 97 == 0) {
            CHECK_EQ(act(arena, "decay"), 0);
        }
        if (round % 203 == 0) {
            CHECK_EQ(act(arena, "purge"), 0);
        }
        if (round % 1501 == 1500) {
            CHECK_EQ(act(arena, "reset"), 0);
            memset(blocks, 0, sizeof blocks);
        }
    }
    CHECK(mw_heap_is_valid());
    return good;
}

static struct watch watch;

TEST(every_mapping_goes_through_the_hooks)
{
    watch_init(&watch);
    for (int round = 0; round < 3; round++) {
        watch.arena = 0;
        unsigned arena = create(&watch.hooks);
        if (round == 1) {
            allocate_of(0, 100); /* in the first round no thread had named arena 0 but in a hook */
        }
        CHECK_EQ(exercise(arena, 4000), 4000);
        CHECK(watch.count > 0);
        CHECK_EQ(act(arena, "destroy"), 0);
        CHECK_EQ(watch.count, 0);
    }
    for (int hook = 0; hook < HOOKS; hook++) {
        bool is_needed = hook != DESTROY && hook != LAZY && hook != FORCED;
        CHECK_MSG((watch.calls[hook] != 0) == is_needed, "hook %d: %u", hook, watch.calls[hook]);
    }
}

TEST(hooks_may_decline_now_and_then)
{
    watch_init(&watch);
    for (int mask = 1; mask < 1 << HOOKS; mask += 11) {
        for (int hook = 0; hook < HOOKS; hook++) {
            watch.says_no[hook] = mask >> hook & 1 ? 2 + hook % 3 : 0;
        }
        watch.arena = 0;
        watch.comes_without_memory = mask % 3 == 0;
        unsigned arena = create(&watch.hooks);
        set_decay(arena, "dirty_decay_ms", mask % 4 == 0 ? 0 : 5);
        set_decay(arena, "muzzy_decay_ms", mask % 2 ? 5 : 0);
        CHECK(exercise(arena, 400) > 100);
        CHECK_EQ(act(arena, "destroy"), 0);
        CHECK_EQ(watch.count, 0); /* the last hook cannot decline */
    }
}

TEST(hooks_may_decline_always)
{
    watch_init(&watch);
    for (int hook = DALLOC; hook < HOOKS; hook++) {
        memset(watch.says_no, 0, sizeof watch.says_no);
        watch.says_no[hook] = 1;
        watch.arena = 0;
        unsigned arena = create(&watch.hooks);
        set_decay(arena, "muzzy_decay_ms", 5);
        CHECK(exercise(arena, 1000) == 1000 || hook == COMMIT);
        CHECK_EQ(act(arena, "destroy"), 0);
        CHECK_EQ(watch.count, 0);
    }
    watch.says_no[ALLOC] = 1;
    watch.arena = 0;
    unsigned arena = create(&watch.hooks);
    errno = 0;
    CHECK(mallocx(100, MALLOCX_ARENA(arena)) == NULL &&
          mallocx(100000, MALLOCX_ARENA(arena)) == NULL);
    CHECK_EQ(errno, ENOMEM);
    CHECK_EQ(act(arena, "destroy"), 0);
}

TEST(hooks_may_be_missing)
{
    for (int hook = DALLOC; hook < HOOKS; hook++) {
        watch_init(&watch);
        switch (hook) {
        case DALLOC:
            watch.hooks.dalloc = NULL;
            break;
        case COMMIT:
            watch.hooks.commit = NULL;
            watch.hooks.decommit = NULL;
            break;
        case DECOMMIT:
            watch.hooks.decommit = NULL;
            break;
        case LAZY:
            watch.hooks.purge_lazy = NULL;
            break;
        case FORCED:
            watch.hooks.decommit = NULL;
            watch.hooks.purge_forced = NULL;
            break;
        case SPLIT:
            watch.hooks.split = NULL;
            break;
        case MERGE:
            watch.hooks.merge = NULL;
            break;
        default:
            watch.hooks.destroy = NULL;
            break;
        }
        watch.arena = 0;
        unsigned arena = create(&watch.hooks);
        CHECK_EQ(exercise(arena, 1000), 1000);
        CHECK_EQ(act(arena, "destroy"), 0);
        CHECK_EQ(watch.count, 0);
    }
}

TEST(a_declined_dalloc_keeps_the_memory_for_reuse)
{
    watch_init(&watch);
    watch.says_no[DALLOC] = 1;
    unsigned arena = create(&watch.hooks);
    for (int round = 0; round < 10; round++) {
        void *block = mallocx(20 << 20, MALLOCX_ARENA(arena));
        memset(block, 1, 20 << 20);
        dallocx(block, 0);
        CHECK_EQ(act(arena, "purge"), 0);
    }
    CHECK_EQ(watch.calls[ALLOC], 1);
    CHECK_GE(watch.calls[DALLOC], 1);
    CHECK_EQ(watch.calls[DESTROY], 0);
    CHECK_EQ(act(arena, "destroy"), 0);
    CHECK(watch.calls[DESTROY] > 0 && watch.count == 0);
}

/* As RocksDB does: own hooks around those that the arena had. */
static extent_hooks_t *original;
static extent_hooks_t around;
static unsigned passed_on;

static void *pass_alloc_on(extent_hooks_t *hooks, void *new_address, size_t size, size_t alignment,
                           bool *zero, bool *commit, unsigned arena)
{
    (void)hooks;
    passed_on++;
    return original->alloc(original, new_address, size, alignment, zero, commit, arena);
}

TEST(hooks_around_those_of_the_arena)
{
    unsigned arena, size_of_arena = 0;
    size_t size = sizeof arena;
    (void)size_of_arena;
    CHECK_EQ(mallctl("arenas.create", &arena, &size, NULL, 0), 0);
    char name[64];
    snprintf(name, sizeof name, "arena.%u.extent_hooks", arena);
    dallocx(mallocx(100, MALLOCX_ARENA(arena)), 0);
    size = sizeof original;
    CHECK_EQ(mallctl(name, &original, &size, NULL, 0), 0);
    around = *original;
    around.alloc = pass_alloc_on;
    extent_hooks_t *hooks = &around, *before = NULL;
    CHECK_EQ(mallctl(name, &before, &size, &hooks, sizeof hooks), 0);
    CHECK(before == original);
    CHECK_EQ(exercise(arena, 3000), 3000);
    CHECK(passed_on > 0);
    CHECK_EQ(mallctl(name, &before, &size, &original, sizeof original), 0);
    CHECK(before == &around);
    CHECK_EQ(exercise(arena, 3000), 3000);
    CHECK_EQ(act(arena, "destroy"), 0);
    CHECK_EQ(mallctl("arena.0.extent_hooks", &before, &size, NULL, 0), 0);
    CHECK(before == original);
}

/* The program gives the hooks of the kernel back to an arena whose own had taken memory away, with the access to it. */
TEST(memory_that_hooks_took_away_is_used_without_them)
{
    enum { BYTES = 1 << 20 };
    char name[64];
    size_t size = sizeof original;
    watch_init(&watch);
    watch.says_no[DALLOC] = 1;
    unsigned arena = create(&watch.hooks);
    char *block = mallocx(BYTES, MALLOCX_ARENA(arena));
    memset(block, 1, BYTES);
    dallocx(block, 0);
    CHECK_EQ(act(arena, "purge"), 0);
    CHECK_GE(watch.calls[DECOMMIT], 1);
    unsigned mapped = watch.calls[ALLOC];
    snprintf(name, sizeof name, "arena.%u.extent_hooks", arena_of_hooks);
    CHECK_EQ(mallctl(name, &original, &size, NULL, 0), 0);
    snprintf(name, sizeof name, "arena.%u.extent_hooks", arena);
    CHECK_EQ(mallctl(name, NULL, NULL, &original, sizeof original), 0);
    for (int round = 0; round < 3; round++) {
        char *zero = mallocx(BYTES, MALLOCX_ARENA(arena) | MALLOCX_ZERO);
        CHECK(zero != NULL && (round != 0 || zero == block));
        for (int i = 0; i < BYTES; i += 64) {
            CHECK_EQ(zero[i], 0);
        }
        memset(zero, 1, BYTES);
        dallocx(zero, 0);
        CHECK_EQ(act(arena, "purge"), 0);
    }
    CHECK_EQ(watch.calls[ALLOC], mapped);
    CHECK_EQ(exercise(arena, 1000), 1000);
    CHECK_EQ(act(arena, "destroy"), 0);
    CHECK(mw_heap_is_valid());
}

/* --- Threads ---------------------------------------------------------------------------------- */

enum { THREADS = 3 };
static struct watch watches[THREADS];
static volatile bool stop;

static void *bound_with_hooks(void *argument)
{
    unsigned arena = create(argument);
    CHECK_EQ(mallctl("thread.arena", NULL, NULL, &arena, sizeof arena), 0);
    uint64_t state = (uintptr_t)argument | 1;
    void *blocks[30] = {NULL};
    do {
        size_t at = test_random(&state) % 30;
        free(blocks[at]);
        blocks[at] = malloc(sizes[test_random(&state) % SIZES]);
        CHECK(blocks[at] != NULL);
        if (test_random(&state) % 64 == 0) {
            CHECK_EQ(act(arena, "purge"), 0);
        }
    } while (!stop);
    for (int i = 0; i < 30; i++) {
        free(blocks[i]);
    }
    return NULL;
}

KERNEL_TEST(hooks_that_allocate_in_bound_threads_under_forks)
{
    pthread_t threads[THREADS];
    bool on = true;
    CHECK_EQ(mallctl("background_thread", NULL, NULL, &on, sizeof on), 0);
    ssize_t soon = 20;
    CHECK_EQ(mallctl("arenas.dirty_decay_ms", NULL, NULL, &soon, sizeof soon), 0);
    for (int i = 0; i < THREADS; i++) {
        watch_init(&watches[i]);
        pthread_create(&threads[i], NULL, bound_with_hooks, &watches[i]);
    }
    for (int round = 0; round < 40; round++) {
        usleep(2000);
        pid_t child = fork();
        if (child == 0) {
            free(malloc(100)); /* the bound threads are gone */
            for (int i = 0; i < THREADS; i++) {
                if (watches[i].arena != 0) {
                    CHECK(mallocx(50000, MALLOCX_ARENA(watches[i].arena)) != NULL);
                    CHECK_EQ(act(watches[i].arena, "destroy"), 0);
                    CHECK_EQ(watches[i].count, 0);
                }
            }
            CHECK(mw_heap_is_valid());
            _exit(0);
        }
        int status;
        CHECK_EQ(waitpid(child, &status, 0), child);
        CHECK_EQ(status, 0);
    }
    stop = true;
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        CHECK_EQ(act(watches[i].arena, "destroy"), 0);
        CHECK_EQ(watches[i].count, 0);
    }
    CHECK(mw_heap_is_valid());
}

static unsigned younger_arena;
static int progress; /* 1: the hook is at work, 2: fork begins */

static int progress_now(void)
{
    return __atomic_load_n(&progress, __ATOMIC_ACQUIRE);
}

static void *alloc_beside_a_fork(extent_hooks_t *hooks, void *new_address, size_t size,
                                 size_t alignment, bool *zero, bool *commit, unsigned arena)
{
    (void)hooks;
    if (progress_now() == 0) {
        __atomic_store_n(&progress, 1, __ATOMIC_RELEASE);
        while (progress_now() != 2) {
            usleep(100);
        }
        usleep(20000); /* fork has what it can have by now */
    }
    allocate_of(younger_arena, 100);
    char name[64];
    extent_hooks_t *found;
    size_t size_of_found = sizeof found;
    snprintf(name, sizeof name, "arena.%u.extent_hooks", younger_arena);
    CHECK_EQ(mallctl(name, &found, &size_of_found, NULL, 0), 0);
    CHECK(found == &around);
    return original->alloc(original, new_address, size, alignment, zero, commit, arena);
}

static void *allocate_of_older(void *arena)
{
    allocate_of(*(unsigned *)arena, 100);
    return NULL;
}

KERNEL_TEST(a_hook_uses_a_younger_arena_with_hooks_while_another_thread_forks)
{
    static extent_hooks_t older_hooks;
    pthread_t thread;
    size_t size = sizeof original;
    CHECK_EQ(mallctl("arena.0.extent_hooks", &original, &size, NULL, 0), 0);
    older_hooks = around = *original;
    older_hooks.alloc = alloc_beside_a_fork;
    around.alloc = pass_alloc_on;
    unsigned older_arena = create(&older_hooks);
    younger_arena = create(&around);
    CHECK_EQ(pthread_create(&thread, NULL, allocate_of_older, &older_arena), 0);
    while (progress_now() != 1) {
        usleep(100);
    }
    __atomic_store_n(&progress, 2, __ATOMIC_RELEASE);
    pid_t child = fork();
    if (child == 0) {
        allocate_of(older_arena, 100);
        allocate_of(younger_arena, 100);
        CHECK(mw_heap_is_valid());
        _exit(0);
    }
    int status;
    CHECK_EQ(waitpid(child, &status, 0), child);
    CHECK_EQ(status, 0);
    CHECK_EQ(pthread_join(thread, NULL), 0);
    CHECK(passed_on > 0);
    CHECK_EQ(act(older_arena, "destroy"), 0);
    CHECK_EQ(act(younger_arena, "destroy"), 0);
    CHECK(mw_heap_is_valid());
}

TEST(decay_gives_to_hooks_while_nobody_calls)
{
    watch_init(&watch);
    bool on = true;
    unsigned arena = create(&watch.hooks);
    set_decay(arena, "dirty_decay_ms", 50);
    CHECK_EQ(mallctl("arenas.dirty_decay_ms", NULL, NULL, &(ssize_t){50}, sizeof(ssize_t)), 0);
    CHECK_EQ(mallctl("background_thread", NULL, NULL, &on, sizeof on), 0);
    void *block = mallocx(30 << 20, MALLOCX_ARENA(arena));
    memset(block, 1, 30 << 20);
    dallocx(block, 0);
    for (int i = 0; i < 500 && __atomic_load_n(&watch.calls[DALLOC], __ATOMIC_RELAXED) == 0; i++) {
        usleep(10000);
    }
    CHECK(__atomic_load_n(&watch.calls[DALLOC], __ATOMIC_RELAXED) > 0);
}
