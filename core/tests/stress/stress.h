/* SPDX-License-Identifier: MIT
 *
 * Shared by the stress tests: how long they run, blocks that carry a pattern, and slots through
 * which threads hand blocks to each other.
 *
 * Each test runs a fixed number of rounds, or, with MALLOW_LONG=SECONDS in the environment, for
 * that many seconds. Random choices come from MALLOW_SEED, which is printed.
 */
#ifndef TEST_STRESS_H
#define TEST_STRESS_H

#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>

#include "../allocator.h"
#include "../pattern.h"
#include "../test.h"

/* Slow builds (sanitizers) take a fraction of the steps. */
#ifndef STRESS_DIVISOR
#define STRESS_DIVISOR 1
#endif

static inline int64_t stress_now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* True while a test that has done `done` rounds since `start_ms` should do more. */
static inline bool stress_goes_on(int64_t start_ms, int done, int short_rounds)
{
    const char *seconds = getenv("MALLOW_LONG");
    return seconds ? stress_now_ms() < start_ms + atoll(seconds) * 1000 : done < short_rounds;
}

static inline uint64_t stress_seed(const char *test)
{
    const char *text = getenv("MALLOW_SEED");
    uint64_t seed =
        text ? strtoull(text, NULL, 10) : (uint64_t)time(NULL) * 1000003 + (uint64_t)getpid();
    printf("%s: MALLOW_SEED=%" PRIu64 "\n", test, seed);
    fflush(stdout);
    return seed | 1;
}

/* One state per thread, so that a seed gives each thread the same choices every time. */
static inline uint64_t stress_thread_random(uint64_t seed, size_t thread)
{
    uint64_t state = seed ^ (thread + 1) * 0x9E3779B97F4A7C15u;
    return state ? state : 1;
}

/* Mostly small, sometimes up to 64 KiB, rarely up to 1 MiB: the shape of real programs. */
static inline size_t stress_size(uint64_t *random)
{
    uint64_t choice = test_random(random) >> 16;
    unsigned kind = (unsigned)(choice % 512);
    size_t limit = kind < 400 ? 256 : kind < 490 ? 4096 : kind < 511 ? 65536 : 1u << 20;
    return (size_t)(choice >> 10) % limit;
}

struct stress_block {
    void *bytes;
    size_t size;
    uint64_t owner;
};

static inline struct stress_block stress_allocate(size_t size, uint64_t owner)
{
    struct stress_block block = {t_malloc(size), size, owner};
    CHECK_MSG(block.bytes != NULL, "%zu bytes", size);
    pattern_write(block.bytes, size, owner);
    return block;
}

static inline void stress_free(struct stress_block *block)
{
    if (block->bytes) {
        pattern_check(block->bytes, block->size, block->owner);
        t_free(block->bytes);
        block->bytes = NULL;
    }
}

/* A place where threads leave blocks for each other. Zero is unlocked and empty. */
struct stress_slot {
    atomic_bool is_taken;
    struct stress_block block; /* lock: is_taken */
};

/* Leaves `block` in the slot and returns what lay there before. */
static inline struct stress_block stress_exchange(struct stress_slot *slot,
                                                  struct stress_block block)
{
    while (atomic_exchange_explicit(&slot->is_taken, true, memory_order_acquire)) {
        sched_yield();
    }
    struct stress_block before = slot->block;
    slot->block = block;
    atomic_store_explicit(&slot->is_taken, false, memory_order_release);
    return before;
}

static inline void stress_join(pthread_t thread)
{
    CHECK_EQ(pthread_join(thread, NULL), 0);
}

static inline pthread_t stress_start(void *(*body)(void *), void *argument)
{
    pthread_t thread;
    CHECK_EQ(pthread_create(&thread, NULL, body, argument), 0);
    return thread;
}

/* One field of /proc/self/statm in bytes: 0 is the address space, 1 the resident part. Always 0
 * under ThreadSanitizer: what its shadow of the memory takes says nothing of the allocator. */
static inline size_t stress_memory(int field)
{
#ifdef __SANITIZE_THREAD__
    (void)field;
    return 0;
#else
    char text[128] = {0};
    int file = open("/proc/self/statm", O_RDONLY);
    CHECK(file >= 0 && read(file, text, sizeof text - 1) > 0);
    close(file);
    char *at = text;
    for (int i = 0; i < field; i++) {
        strtoull(at, &at, 10);
    }
    return (size_t)strtoull(at, NULL, 10) * (size_t)sysconf(_SC_PAGESIZE);
#endif
}

#endif
