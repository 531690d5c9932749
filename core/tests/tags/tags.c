/* SPDX-License-Identifier: MIT
 *
 * Memory tags of the secure build on aarch64. The same program runs on a CPU that has them and on one that has not;
 * which of them it is, EXPECT_TAGS=1 or 0 says, so that none of it is left out unnoticed.
 *
 * What is wrong happens in a child, which must be ended: where there are tags by SIGSEGV or by a sentence.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/wait.h>

#include "mallow/jemalloc.h"

#include "../test.h"

/* The compiler must not know what becomes of a block. */
static void *volatile sink;

static void *known(void *pointer)
{
    sink = pointer;
    return sink;
}

static bool expects_tags(void)
{
    const char *expected = getenv("EXPECT_TAGS");
    CHECK_MSG(expected != NULL && (expected[0] == '0' || expected[0] == '1'), "EXPECT_TAGS");
    return expected[0] == '1';
}

static unsigned tag_of(const void *pointer)
{
    return (unsigned)((uintptr_t)pointer >> 56);
}

static void *without_tag(const void *pointer)
{
    return (void *)((uintptr_t)pointer & (UINTPTR_MAX >> 8));
}

/* Sizes of slots, small and medium, up to the largest. */
static const size_t sizes[] = {1,   8,    9,    16,   24,   40,    56,    100,   200,  504,
                               968, 1016, 1017, 2000, 5000, 10000, 20000, 32000, 32760};
enum { SIZES = sizeof sizes / sizeof sizes[0] };

/* --- Pointers --------------------------------------------------------------------------------- */

static void check_given(const char *by, unsigned char *block, size_t size)
{
    CHECK_MSG(block != NULL, "%s", by);
    bool has_tag = tag_of(block) != 0;
    CHECK_MSG(has_tag == expects_tags(), "%s gave %p for %zu bytes", by, (void *)block, size);
    CHECK_MSG(tag_of(block) < 16, "%s gave %p", by, (void *)block);
    memset(block, 1, size);
    CHECK_EQ(malloc_usable_size(block), size);
}

void *aligned_alloc(size_t alignment, size_t size);
void *memalign(size_t alignment, size_t size);
int posix_memalign(void **out, size_t alignment, size_t size);
size_t malloc_usable_size(void *block);
void free_sized(void *block, size_t size);
void free_aligned_sized(void *block, size_t alignment, size_t size);

TEST(every_function_gives_tags)
{
    for (int i = 0; i < SIZES; i++) {
        size_t size = sizes[i];
        unsigned char *block = malloc(size);
        check_given("malloc", block, size);
        free(block);
        block = calloc(1, size);
        for (size_t k = 0; k < size; k++) {
            CHECK_EQ(block[k], 0);
        }
        check_given("calloc", block, size);
        free_sized(block, size);
        block = aligned_alloc(64, size);
        CHECK_EQ((uintptr_t)block % 64, 0);
        check_given("aligned_alloc", block, size);
        free_aligned_sized(block, 64, size);
        void *out = NULL;
        CHECK_EQ(posix_memalign(&out, 32, size), 0);
        check_given("posix_memalign", out, size);
        block = realloc(out, size / 2 + 1);
        check_given("realloc", block, size / 2 + 1);
        block = reallocarray(block, 1, size);
        check_given("reallocarray", block, size);
        free(block);
        block = mallocx(size, 0);
        check_given("mallocx", block, size);
        block = rallocx(block, size / 3 + 1, 0);
        check_given("rallocx", block, size / 3 + 1);
        CHECK_EQ(sallocx(block, 0), size / 3 + 1);
        CHECK_EQ(xallocx(block, size / 3 + 1, 0, 0), size / 3 + 1);
        sdallocx(block, size / 3 + 1, 0);
        block = mallocx(size, MALLOCX_ALIGN(128));
        check_given("mallocx", block, size);
        dallocx(block, 0);
        block = mw_malloc(size);
        check_given("mw_malloc", block, size);
        mw_free(block);
    }
    CHECK(mw_heap_is_valid());
}

TEST(neighbours_differ)
{
    enum { COUNT = 2000, SIZE = 40 };
    static char *blocks[COUNT];
    for (int i = 0; i < COUNT; i++) {
        blocks[i] = malloc(SIZE);
    }
    int pairs = 0;
    for (int i = 0; i < COUNT; i++) {
        for (int k = 0; k < COUNT; k++) {
            if ((char *)without_tag(blocks[k]) == (char *)without_tag(blocks[i]) + 48) {
                pairs++;
                CHECK_EQ(expects_tags(), tag_of(blocks[i]) != tag_of(blocks[k]));
            }
        }
    }
    CHECK_MSG(pairs > COUNT / 2, "only %d pairs", pairs);
}

/* What never has a tag. */
TEST(other_blocks_have_none)
{
    char *large = malloc(100000), *huge = malloc(20u << 20), *none = malloc(0);
    CHECK_EQ(tag_of(large) | tag_of(huge) | tag_of(none), 0);
    memset(large, 1, 100000);
    memset(huge, 1, 20u << 20);
    large = realloc(large, 30000);
    CHECK_EQ(tag_of(large) != 0, expects_tags());
    CHECK_EQ(large[29999], 1);
    large = realloc(large, 200000);
    CHECK_EQ(tag_of(large), 0);
    CHECK_EQ(large[29999], 1);
    free(large);
    free(huge);
    free(none);
}

/* A block of an arena that is reset, and whose memory is used again. */
TEST(reset_of_an_arena)
{
    unsigned arena;
    size_t size = sizeof arena;
    CHECK_EQ(mallctl("arenas.create", &arena, &size, NULL, 0), 0);
    char name[64];
    snprintf(name, sizeof name, "arena.%u.reset", arena);
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < 1000; i++) {
            memset(mallocx(200, MALLOCX_ARENA(arena)), 1, 200);
        }
        CHECK_EQ(mallctl(name, NULL, NULL, NULL, 0), 0);
        for (int i = 0; i < 20; i++) {
            memset(mallocx(40000, MALLOCX_ARENA(arena)), 1, 40000);
        }
        CHECK_EQ(mallctl(name, NULL, NULL, NULL, 0), 0);
    }
}

/* A realloc that fails leaves the block as it was. */
TEST(realloc_that_fails)
{
    char *block = malloc(40);
    memset(block, 7, 40);
    CHECK(realloc(block, PTRDIFF_MAX) == NULL);
    volatile size_t count = SIZE_MAX;
    CHECK(reallocarray(block, count, 2) == NULL);
    CHECK(rallocx(block, PTRDIFF_MAX, 0) == NULL);
    CHECK_EQ(block[39], 7);
    char *same = realloc(block, 36);
    CHECK(same == block);
    CHECK_EQ(same[35], 7);
    CHECK(realloc(same, 0) == NULL);
}

/* The kernel takes such pointers. */
TEST(system_calls_take_tags)
{
    int ends[2];
    CHECK_EQ(pipe(ends), 0);
    char *out = malloc(64), *in = malloc(64);
    memset(out, 'x', 64);
    CHECK_EQ(write(ends[1], out, 64), 64);
    CHECK_EQ(read(ends[0], in, 64), 64);
    CHECK_EQ(memcmp(in, out, 64), 0);
    free(in);
    free(out);
}

/* --- What must be stopped --------------------------------------------------------------------- */

struct end {
    int signal; /* 0: it ended by itself */
    char text[512];
};

/* Where a child ends that does something wrong, and what it says. */
static struct end end_of(void (*wrong)(void))
{
    struct end end = {0};
    int ends[2];
    CHECK_EQ(pipe(ends), 0);
    pid_t child = fork();
    if (child == 0) {
        dup2(ends[1], 2);
        wrong();
        _exit(0);
    }
    close(ends[1]);
    size_t used = 0;
    ssize_t got;
    while (used < sizeof end.text - 1 &&
           (got = read(ends[0], end.text + used, sizeof end.text - 1 - used)) > 0) {
        used += (size_t)got;
    }
    close(ends[0]);
    int status;
    CHECK(waitpid(child, &status, 0) == child);
    end.signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
    return end;
}

/* Tags stop it, by this sentence. Without them it may end as it likes. */
static void check_stopped(void (*wrong)(void), const char *text)
{
    struct end end = end_of(wrong);
    if (expects_tags()) {
        CHECK_MSG(end.signal == SIGABRT, "signal %d: %s", end.signal, end.text);
        CHECK_MSG(strstr(end.text, text) != NULL, "'%s' is not in '%s'", text, end.text);
    }
}

static void read_freed(void)
{
    volatile char *block = known(malloc(40));
    free((void *)block);
    sink = (void *)(uintptr_t)block[8];
}

static void write_freed(void)
{
    volatile char *block = known(malloc(2000));
    free((void *)block);
    block[1000] = 1;
}

/* One of many blocks, in slots of a size, behind which another one lies: *behind. */
static char *with_neighbour(size_t size, size_t slot, char **behind)
{
    enum { COUNT = 200 };
    static char *blocks[COUNT];
    for (int i = 0; i < COUNT; i++) {
        blocks[i] = known(malloc(size));
    }
    for (int i = 0; i < COUNT; i++) {
        for (int k = 0; k < COUNT; k++) {
            if ((char *)without_tag(blocks[k]) == (char *)without_tag(blocks[i]) + slot) {
                *behind = blocks[k];
                return blocks[i];
            }
        }
    }
    _exit(1); /* which is not how it is to end */
}

static void read_behind(void)
{
    char *behind;
    volatile char *block = with_neighbour(40, 48, &behind);
    sink = (void *)(uintptr_t)block[48];
}

static void read_spare(void)
{
    volatile char *block = known(malloc(130)); /* in a slot of 160 bytes */
    sink = (void *)(uintptr_t)block[144];
}

static void read_in_front(void)
{
    char *behind;
    with_neighbour(2000, 2048, &behind);
    sink = (void *)(uintptr_t)((volatile char *)behind)[-100];
}

/* A block between two whose tags are equal, which they are by chance: the nearer one is named. */
static void read_between_equals(size_t offset)
{
    char *behind;
    volatile char *front;
    int tries = 0;
    do {
        front = with_neighbour(2000, 2 * 2048, &behind);
    } while (tag_of((const void *)front) != tag_of(behind) && ++tries < 1000);
    sink = (void *)(uintptr_t)front[2048 + offset];
}

static void read_first_between(void)
{
    read_between_equals(100);
}

static void read_last_between(void)
{
    read_between_equals(1900);
}

static void write_into_neighbour(void)
{
    char *behind;
    volatile char *block = with_neighbour(104, 112, &behind);
    block[112 + 8] = 1;
}

static void free_twice(void)
{
    char *block = known(malloc(40));
    free(block);
    free(block);
}

/* Of a slab that has become pages since. */
static void free_again_later(void)
{
    enum { BLOCKS = 100000 };
    static char *blocks[BLOCKS];
    for (int i = 0; i < BLOCKS; i++) {
        blocks[i] = known(malloc(40));
    }
    for (int i = 0; i < BLOCKS; i++) {
        free(blocks[i]);
    }
    malloc_trim(0);
    free(blocks[1000]);
}

/* Uses a pointer to a block that has been freed and given out again. What is freed after it pushes it out of the
 * quarantine; it is every other block, so that their slabs are used again and do not become pages. Then all that
 * is free is taken. */
static void use_stale(void (*use)(void *))
{
    enum { OTHERS = 4000, MOST = 100000 };
    static char *others[OTHERS];
    for (int i = 0; i < OTHERS; i++) {
        others[i] = known(malloc(40));
    }
    char *stale = others[OTHERS / 2];
    free(stale);
    for (int i = 1; i < OTHERS; i += 2) {
        free(others[i]);
    }
    for (int i = 0; i < MOST; i++) {
        char *block = known(malloc(40));
        bool is_there = without_tag(block) == without_tag(stale);
        if (is_there && (tag_of(block) != tag_of(stale) || !expects_tags())) {
            use(stale);
            return;
        }
        if (is_there) { /* the same tag, by chance: once more */
            use_stale(use);
            return;
        }
    }
    _exit(1);
}

static void by_read(void *block)
{
    sink = (void *)(uintptr_t)((volatile char *)block)[8];
}

static void by_realloc(void *block)
{
    sink = realloc(block, 50);
}

static void by_size(void *block)
{
    sink = (void *)malloc_usable_size(block);
}

static void free_reused(void)
{
    use_stale(free);
}

static void realloc_reused(void)
{
    use_stale(by_realloc);
}

static void read_reused(void)
{
    use_stale(by_read);
}

static void size_of_reused(void)
{
    use_stale(by_size);
}

static void read_after_realloc(void)
{
    volatile char *block = known(malloc(40));
    sink = realloc((void *)block, 4000);
    sink = (void *)(uintptr_t)block[0];
}

static void read_given_up(void)
{
    volatile char *block = known(realloc(malloc(240), 200)); /* it stays */
    sink = (void *)(uintptr_t)block[224];
}

static void *free_it(void *block)
{
    free(block);
    return NULL;
}

static void read_freed_by_thread(void)
{
    volatile char *block = known(malloc(40));
    pthread_t thread;
    pthread_create(&thread, NULL, free_it, (void *)block);
    pthread_join(thread, NULL);
    sink = (void *)(uintptr_t)block[0];
}

static void *read_it(void *block)
{
    sink = (void *)(uintptr_t)((volatile char *)block)[0];
    return NULL;
}

static void thread_reads_freed(void)
{
    char *block = known(malloc(40));
    pthread_t thread;
    pthread_create(&thread, NULL, read_it, block); /* so that there is one, for its tags */
    pthread_join(thread, NULL);
    free(block);
    pthread_create(&thread, NULL, read_it, block);
    pthread_join(thread, NULL);
}

TEST(use_after_free)
{
    check_stopped(read_freed, "access after free: byte 8 of ");
    check_stopped(write_freed, "access after free: byte 1000 of ");
    check_stopped(read_after_realloc, "access after free: byte 0 of ");
    check_stopped(read_freed_by_thread, "access after free: byte 0 of ");
    check_stopped(thread_reads_freed, "access after free: byte 0 of ");
    check_stopped(read_reused, "mallow: "); /* a neighbour may have the tag, by chance */
}

TEST(overflow_and_underflow)
{
    check_stopped(read_behind, "(40 bytes): access of byte 8 behind it");
    check_stopped(read_spare, "(130 bytes): access of byte 14 behind it");
    check_stopped(write_into_neighbour, "(104 bytes): access of byte 16 behind it");
    check_stopped(read_in_front, "underflow of ");
    check_stopped(read_first_between, "(2000 bytes): access of byte 148 behind it");
    check_stopped(read_last_between, "(2000 bytes): access of byte 148 in front of it");
    check_stopped(read_given_up, "(200 bytes): access of byte 24 behind it");
}

TEST(release_of_freed)
{
    struct end end = end_of(free_twice);
    CHECK_EQ(end.signal, SIGABRT); /* with or without tags */
    CHECK_MSG(strstr(end.text, "double free of ") != NULL, "%s", end.text);
    end = end_of(free_again_later);
    CHECK_EQ(end.signal, SIGABRT);
    CHECK_MSG(strstr(end.text, "did not allocate") == NULL, "%s", end.text);
    check_stopped(free_reused, "free of ");
    check_stopped(free_reused, " by a stale pointer: its memory tag is ");
    check_stopped(realloc_reused, "realloc of ");
    check_stopped(realloc_reused, " by a stale pointer: its memory tag is ");
    check_stopped(size_of_reused, "malloc_usable_size of ");
}

/* --- What must go on -------------------------------------------------------------------------- */

enum { THREADS = 4, KEPT = 200, ROUNDS = 12000 };

static _Atomic(char *) given_on[64]; /* blocks that another thread frees */

static char *storm_alloc(uint64_t *random, size_t size)
{
    switch (test_random(random) % 5) {
    case 0:
        return calloc(1, size);
    case 1:
        return aligned_alloc((size_t)16 << test_random(random) % 5, size);
    default:
        return malloc(size);
    }
}

static void storm_release(uint64_t *random, char *block)
{
    _Atomic(char *) *place = &given_on[test_random(random) % 64];
    free(test_random(random) % 4 == 0 ? atomic_exchange(place, block) : block);
}

/* The first and the last byte of each block say which it is. */
static void *storm(void *seed)
{
    uint64_t random = (uintptr_t)seed;
    static __thread char *kept[KEPT];
    static __thread size_t size_of[KEPT];
    for (int round = 0; round < ROUNDS; round++) {
        size_t i = test_random(&random) % KEPT;
        size_t size = test_random(&random) % (round % 8 == 0 ? 40000 : 600) + 1;
        char mark = (char)i;
        if (kept[i] != NULL) {
            CHECK_EQ(kept[i][0], mark);
            CHECK_EQ(kept[i][size_of[i] - 1], mark);
            CHECK_EQ(malloc_usable_size(kept[i]), size_of[i]);
        }
        if (kept[i] != NULL && test_random(&random) % 3 == 0) {
            kept[i] = realloc(kept[i], size);
            CHECK_EQ(kept[i][0], mark);
        } else {
            storm_release(&random, kept[i]);
            kept[i] = storm_alloc(&random, size);
        }
        CHECK(kept[i] != NULL);
        kept[i][0] = kept[i][size - 1] = mark;
        size_of[i] = size;
    }
    for (size_t i = 0; i < KEPT; i++) {
        free(kept[i]);
        kept[i] = NULL;
    }
    return NULL;
}

TEST(storm_of_threads_and_forks)
{
    for (int round = 0; round < 3; round++) {
        pthread_t threads[THREADS];
        for (uintptr_t i = 0; i < THREADS; i++) {
            CHECK_EQ(pthread_create(&threads[i], NULL, storm, (void *)(i + 1 + 10 * round)), 0);
        }
        for (int i = 0; i < THREADS; i++) {
            CHECK_EQ(pthread_join(threads[i], NULL), 0);
        }
        CHECK(mw_heap_is_valid());
        /* The emulator forks from one thread alone. The child frees what its parent had. */
        pid_t child = fork();
        if (child == 0) {
            storm((void *)(uintptr_t)100);
            for (int i = 0; i < 64; i++) {
                free(atomic_exchange(&given_on[i], NULL));
            }
            _exit(mw_heap_is_valid() ? 0 : 1);
        }
        int status;
        CHECK(waitpid(child, &status, 0) == child);
        CHECK_EQ(status, 0);
    }
}

static char *of_handler;

static void on_signal(int number)
{
    (void)number;
    of_handler = malloc(40);
    memset(of_handler, 1, 40);
}

TEST(signal_handlers)
{
    signal(SIGUSR1, on_signal);
    raise(SIGUSR1);
    CHECK_EQ(tag_of(of_handler) != 0, expects_tags());
    free(of_handler);
}
