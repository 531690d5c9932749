/* SPDX-License-Identifier: MIT
 *
 * Blocks may be freed, resized and measured by any thread; errno is the caller's own.
 */
#include <errno.h>
#include <pthread.h>

#include "../allocator.h"
#include "../pattern.h"
#include "../test.h"

enum { BLOCKS = 2000 };

static unsigned char *blocks[BLOCKS];
static size_t sizes[BLOCKS];

static void *allocate_all(void *unused)
{
    for (size_t i = 0; i < BLOCKS; i++) {
        sizes[i] = i * i % 70000;
        blocks[i] = t_malloc(sizes[i]);
        CHECK(blocks[i] != NULL);
        pattern_write(blocks[i], sizes[i], i);
    }
    return unused;
}

static void *resize_all(void *unused)
{
    for (size_t i = 0; i < BLOCKS; i++) {
        pattern_check(blocks[i], sizes[i], i);
        CHECK_GE(t_malloc_usable_size(blocks[i]), sizes[i]);
        sizes[i] = sizes[i] / 2 + 1000;
        blocks[i] = t_realloc(blocks[i], sizes[i]);
        CHECK(blocks[i] != NULL);
        pattern_write(blocks[i], sizes[i], i);
    }
    return unused;
}

static void *free_all(void *unused)
{
    for (size_t i = 0; i < BLOCKS; i++) {
        pattern_check(blocks[i], sizes[i], i);
        t_free(blocks[i]);
    }
    return unused;
}

static void in_thread(void *(*body)(void *))
{
    pthread_t thread;
    CHECK_EQ(pthread_create(&thread, NULL, body, NULL), 0);
    CHECK_EQ(pthread_join(thread, NULL), 0);
}

TEST(blocks_pass_between_threads)
{
    for (int round = 0; round < 5; round++) {
        in_thread(allocate_all);
        in_thread(resize_all);
        in_thread(free_all);
    }
}

TEST(main_thread_frees_for_dead_threads)
{
    in_thread(allocate_all);
    free_all(NULL);
    allocate_all(NULL);
    in_thread(free_all);
}

static void *fail_in_thread(void *unused)
{
    errno = 0;
    CHECK(t_malloc(SIZE_MAX) == NULL);
    CHECK_EQ(errno, ENOMEM);
    return unused;
}

TEST(errno_belongs_to_the_caller)
{
    errno = 77;
    in_thread(fail_in_thread);
    CHECK_EQ(errno, 77);
}

enum { NEIGHBOURS = 16, EXCHANGES = 40000, NEIGHBOUR_THREADS = 4 };

/* Sizes of one to seven bytes less than a slot has for the program, and some that fill a slot with a
 * string instruction. */
static void *exchange_neighbours(void *first)
{
    unsigned char *held[NEIGHBOURS] = {0};
    uint32_t random = (uint32_t)(uintptr_t)first * 2654435761u + 1;
    for (size_t i = 0; i < t_rounds(EXCHANGES); i++) {
        random = random * 1664525u + 1013904223u;
        size_t at = random >> 16 & 15;
        t_free(held[at]);
        held[at] = t_malloc((random >> 24 & 1 ? 2048u : 3072u) - 8 - (random >> 28 & 7));
        CHECK(held[at] != NULL);
    }
    for (size_t at = 0; at < NEIGHBOURS; at++) {
        t_free(held[at]);
    }
    return first;
}

/* A build that looks at what lies in front of a block when that is freed must not see how another thread
 * writes there. */
TEST(neighbours_are_freed_by_several_threads)
{
    pthread_t threads[NEIGHBOUR_THREADS];
    for (size_t i = 0; i < NEIGHBOUR_THREADS; i++) {
        CHECK_EQ(pthread_create(&threads[i], NULL, exchange_neighbours, &blocks[i]), 0);
    }
    for (size_t i = 0; i < NEIGHBOUR_THREADS; i++) {
        CHECK_EQ(pthread_join(threads[i], NULL), 0);
    }
}
