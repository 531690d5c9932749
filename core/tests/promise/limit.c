/* SPDX-License-Identifier: MIT
 *
 * Under memory_limit the allocator never holds more, and says NULL and ENOMEM where it would; what
 * is free is used again, whatever sizes it was of and whichever thread freed it. In the debug build that
 * holds of what waits in the quarantine; red zones and what is noted of small blocks count as well.
 */
#include <dlfcn.h>
#include <errno.h>
#include <stdint.h>

#include "promise.h"

enum { LIMIT = 64 * MIB, BLOCKS_MAX = 1 << 20, THREADS = 8 };

/* What is resident beside the blocks: the list of them, the program and its libc. */
enum { OTHER = 14 * MIB };

static void *blocks[BLOCKS_MAX];

/* Bytes that the program gets at least in blocks of a size. */
static size_t least_of(size_t size)
{
    return promise_is_mode("debug") && size <= 100 ? LIMIT / 16 * 5 : LIMIT / 8 * 5;
}

/* Allocates and writes until there is no more; returns the bytes. */
static size_t fill(size_t size)
{
    size_t count = 0;
    errno = 0;
    for (; count < BLOCKS_MAX && (blocks[count] = malloc(size)) != NULL; count++) {
        memset(blocks[count], 1, size);
    }
    CHECK(count < BLOCKS_MAX);
    CHECK_EQ(errno, ENOMEM);
    for (size_t i = 0; i < count; i++) {
        free(blocks[i]);
    }
    return count * size;
}

static void *fill_in_thread(void *total)
{
    for (int i = 0; i < 200; i++) {
        size_t size = (size_t)512 << (i % 12);
        void *held[64];
        size_t count = 0;
        for (; count < 64 && (held[count] = malloc(size)) != NULL; count++) {
            memset(held[count], 1, size);
        }
        for (size_t at = 0; at < count; at++) {
            free(held[at]);
        }
        __atomic_fetch_add((size_t *)total, count, __ATOMIC_RELAXED);
    }
    return NULL;
}

/* realloc of a block that would grow over the limit leaves it as it is. */
static void grow(void)
{
    size_t size = MIB;
    unsigned char *block = malloc(size);
    CHECK(block != NULL);
    memset(block, 7, size);
    for (void *larger; (larger = realloc(block, size * 2)) != NULL; size *= 2) {
        block = larger;
        memset(block + size, 7, size);
    }
    CHECK_EQ(errno, ENOMEM);
    CHECK_MSG(size >= LIMIT / 4 && size < LIMIT, "%zu", size);
    for (size_t i = 0; i < size; i++) {
        CHECK(block[i] == 7);
    }
    free(block);
}

/* What is free in an arena that the program made is there for all others, and the other way round. */
static void beside_an_arena(void)
{
    int (*control)(const char *, void *, size_t *, void *, size_t) =
        (int (*)(const char *, void *, size_t *, void *, size_t))dlsym(RTLD_DEFAULT, "mallctl");
    void *(*allocate)(size_t, int) = (void *(*)(size_t, int))dlsym(RTLD_DEFAULT, "mallocx");
    enum { COUNT = LIMIT / MIB * 5 / 8 };
    unsigned arenas[2];
    size_t size = sizeof arenas[0];
    if (control == NULL || promise_is_mode("debug")) {
        return; /* which gives back later, in time */
    }
    for (unsigned i = 0; i < 2; i++) {
        CHECK_EQ(control("arenas.create", &arenas[i], &size, NULL, 0), 0);
    }
    for (unsigned round = 0; round < 6; round++) {
        unsigned of = round % 3; /* 2: of the thread's own */
        for (unsigned i = 0; i < COUNT; i++) {
            blocks[i] = of < 2 ? allocate(MIB, (int)((arenas[of] + 1) << 20)) : malloc(MIB);
            CHECK_MSG(blocks[i] != NULL, "round %u: %u MiB", round, i);
            memset(blocks[i], 1, MIB);
        }
        for (unsigned i = 0; i < COUNT; i++) {
            free(blocks[i]);
        }
    }
}

enum { SLEEPERS = 4, SLEEPER_BYTES = 12 * MIB, SLEEPER_BLOCKS = 4096 };

static pthread_barrier_t asleep;

static void *use_and_sleep(void *unused)
{
    unsigned long random = 7;
    for (int round = 0; round < 5; round++) {
        void *held[SLEEPER_BLOCKS];
        size_t count = 0, bytes = 0;
        while (count < SLEEPER_BLOCKS && bytes < SLEEPER_BYTES) {
            random = random * 6364136223846793005u + 1442695040888963407u;
            size_t size = 1000 + (random >> 33) % 29000;
            if ((held[count] = malloc(size)) == NULL) {
                break;
            }
            memset(held[count++], 1, size);
            bytes += size;
        }
        for (size_t i = 0; i < count; i++) {
            free(held[i]);
        }
    }
    pthread_barrier_wait(&asleep); /* all have freed all */
    pthread_barrier_wait(&asleep);
    return unused;
}

/* Threads that sleep have freed all; hardly anything of it is kept from the others. */
static void beside_sleepers(void)
{
    pthread_t threads[SLEEPERS];
    if (promise_is_mode("debug")) {
        return; /* its quarantine is not theirs */
    }
    CHECK_EQ(pthread_barrier_init(&asleep, NULL, SLEEPERS + 1), 0);
    for (int i = 0; i < SLEEPERS; i++) {
        CHECK_EQ(pthread_create(&threads[i], NULL, use_and_sleep, NULL), 0);
    }
    pthread_barrier_wait(&asleep);
    size_t got = fill(100000);
    printf("beside threads that sleep: %zu KiB\n", got / KIB);
    /* In the secure build what waits to be free keeps slabs. */
    CHECK_MSG(got >= LIMIT / 16 * (promise_is_mode("fast") ? 12 : 9), "%zu", got);
    pthread_barrier_wait(&asleep);
    for (int i = 0; i < SLEEPERS; i++) {
        CHECK_EQ(pthread_join(threads[i], NULL), 0);
    }
}

int main(void)
{
    static const size_t sizes[] = {100, 3000, 20000, 100000, MIB, 9 * MIB, 80};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        size_t got = fill(sizes[i]);
        printf("blocks of %zu bytes: %zu KiB\n", sizes[i], got / KIB);
        CHECK_MSG(got >= least_of(sizes[i]) && got <= LIMIT, "%zu of blocks of %zu", got, sizes[i]);
    }
    grow();
    beside_an_arena();
    beside_sleepers();
    CHECK(malloc((size_t)LIMIT + 1) == NULL);
    CHECK_EQ(errno, ENOMEM);

    pthread_t threads[THREADS];
    size_t total = 0;
    for (int i = 0; i < THREADS; i++) {
        CHECK_EQ(pthread_create(&threads[i], NULL, fill_in_thread, &total), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
    }
    CHECK(total > 0);
    promise_at_most("most that was ever resident", promise_field("status", "VmHWM:") / KIB,
                    (LIMIT + OTHER) / KIB, "KiB");
    return 0;
}
